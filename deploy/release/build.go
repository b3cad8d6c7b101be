package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build makes the static binary. Nothing of the machine or the folder gets into
// it.
func (r *release) build(t target, to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version="+r.version, "-o", to, "./cmd/banyan")
	cmd.Dir, cmd.Stderr = r.root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOFLAGS=")
	return cmd.Run()
}

// shipped are the files beside the binary in an archive.
var shipped = []string{"README.md", "deploy/banyan.yaml", "deploy/banyan.service"}

// archive writes the tar.gz of a target and returns its name.
func (r *release) archive(t target, binary string) (string, error) {
	folder := fmt.Sprintf("banyan-%s-%s", r.version, t)
	out, err := os.Create(filepath.Join(r.out, folder+".tar.gz"))
	if err != nil {
		return "", err
	}
	defer out.Close()
	packed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	w := tar.NewWriter(packed)
	if err := r.add(w, folder+"/banyan", binary, 0o755); err != nil {
		return "", err
	}
	for _, name := range shipped {
		if err := r.add(w, folder+"/"+filepath.Base(name), filepath.Join(r.root, name), 0o644); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	if err := packed.Close(); err != nil {
		return "", err
	}
	return folder + ".tar.gz", out.Close()
}

// add puts one file into an archive, of nobody and of the release's time.
func (r *release) add(w *tar.Writer, name, from string, mode int64) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: mode, ModTime: r.at, Format: tar.FormatPAX}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// checksums writes SHA256SUMS, for sha256sum -c.
func (r *release) checksums(files []string) error {
	var b strings.Builder
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}
