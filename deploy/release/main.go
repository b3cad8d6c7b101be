package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	r := release{}
	flag.StringVar(&r.root, "root", "../..", "checkout to build")
	flag.StringVar(&r.out, "out", "../../out/release", "folder for the files")
	flag.StringVar(&r.version, "version", "dev", "version that the binary reports")
	flag.StringVar(&r.certs, "certs", "/etc/ssl/certs/ca-certificates.crt", "certificate authorities for the images")
	seconds := flag.Int64("time", 0, "time of every file in archives and images, seconds since 1970: the commit's")
	only := flag.Bool("sbom", false, "write the bill of materials only, over an older one")
	flag.Parse()
	r.at = time.Unix(*seconds, 0).UTC()
	run := func() error { return r.run(targets) }
	if *only {
		run = r.bill
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one version being built.
type release struct {
	root, out, version, certs string

	at time.Time
}

// target is a system that binaries are built for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "-" + t.arch }

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// run builds all files and writes SHA256SUMS over them. What was in the folder
// and is not part of this release makes it fail.
func (r *release) run(list []target) error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if old, err := os.ReadDir(r.out); err != nil || len(old) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty: remove it first", r.out))
	}
	work, err := os.MkdirTemp("", "banyan-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var files []string
	for _, t := range list {
		binary := filepath.Join(work, t.String())
		if err := r.build(t, binary); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		name, err := r.archive(t, binary)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		files = append(files, name)
		fmt.Println(name)
		if t.os != "linux" {
			continue
		}
		if name, err = r.image(t, binary); err != nil {
			return fmt.Errorf("image for %s: %w", t, err)
		}
		files = append(files, name)
		fmt.Println(name)
	}
	name, err := r.sbom()
	if err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	fmt.Println(name)
	return r.checksums(append(files, name))
}

// bill writes the bill of materials alone.
func (r *release) bill() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	name, err := r.sbom()
	if err == nil {
		fmt.Println(filepath.Join(r.out, name))
	}
	return err
}
