package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/banyan-llm/banyan/gossip/mesh"
	"github.com/banyan-llm/banyan/router"
)

// keygen prints a gossip key or a client's key, or writes a mesh authority and
// certificates.
func keygen(_ context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flagSet("keygen", stderr)
	dir := fs.String("mesh-certs", "", "folder for a mesh CA and one certificate (PEM), instead of a key")
	client := fs.String("client", "", "name of a client: a bearer key and its line for auth.keys_file, instead of a gossip key")
	if err := parse(fs, args); err != nil {
		return err
	}
	if *client != "" {
		if strings.ContainsAny(*client, ":\n") {
			return usageError{errors.New("--client: a name has no colon")}
		}
		key, line := router.NewClientKey(*client)
		fmt.Fprintf(stdout, "key for the client (shown once):  %s\nline for auth.keys_file:          %s\n", key, line)
		return nil
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
