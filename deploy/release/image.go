package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// image writes an image for `docker load`: nothing but the binary, the
// authorities that it trusts and the user that it runs as. It returns the file's
// name.
func (r *release) image(t target, binary string) (string, error) {
	layer, err := r.layer(binary)
	if err != nil {
		return "", err
	}
	made, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return "", err
	}
	made, err = mutate.ConfigFile(made, &v1.ConfigFile{
		Architecture: t.arch, OS: t.os, Created: v1.Time{Time: r.at},
		RootFS: rootFS(made),
		Config: v1.Config{
			User: "65532:65532", Entrypoint: []string{"/usr/local/bin/banyan"},
			Cmd: []string{"serve", "--config", "/etc/banyan/banyan.yaml"}, StopSignal: "SIGTERM",
			ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}, "7946/tcp": {}, "7946/udp": {}},
			Labels:       map[string]string{"org.opencontainers.image.title": "banyan", "org.opencontainers.image.version": r.version},
		},
	})
	if err != nil {
		return "", err
	}
	tag, err := name.NewTag("banyan:" + r.version)
	if err != nil {
		return "", err
	}
	file := fmt.Sprintf("banyan-%s-%s-image.tar", r.version, t)
	return file, tarball.WriteToFile(filepath.Join(r.out, file), tag, made)
}

func rootFS(of v1.Image) v1.RootFS {
	c, err := of.ConfigFile()
	if err != nil {
		return v1.RootFS{}
	}
	return c.RootFS
}

// layer is the image's only one.
func (r *release) layer(binary string) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, folder := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/", "etc/banyan/", "usr/", "usr/local/", "usr/local/bin/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: 0o755, ModTime: r.at, Format: tar.FormatPAX}); err != nil {
			return nil, err
		}
	}
	users := filepath.Join(filepath.Dir(binary), "passwd")
	if err := os.WriteFile(users, []byte("nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"), 0o600); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name, from string
		mode       int64
	}{
		{"etc/passwd", users, 0o644},
		{"etc/ssl/certs/ca-certificates.crt", r.certs, 0o644},
		{"usr/local/bin/banyan", binary, 0o755},
	} {
		if err := r.add(w, f.name, f.from, f.mode); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
}
