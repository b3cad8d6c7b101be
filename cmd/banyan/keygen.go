package main

import (
	"context"
	"fmt"
	"io"

	"github.com/banyan-llm/banyan/gossip/mesh"
)

// keygen prints a gossip key, or writes a mesh authority and certificates.
func keygen(_ context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flagSet("keygen", stderr)
	dir := fs.String("mesh-certs", "", "folder for a mesh CA and one certificate (PEM), instead of a key")
	if err := parse(fs, args); err != nil {
		return err
	}
	if *dir == "" {
		key, err := mesh.GenerateKey()
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, key)
		return nil
	}
	files, err := mesh.GenerateCertificates(*dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		fmt.Fprintln(stdout, f)
	}
	return nil
}
