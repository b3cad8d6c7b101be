package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/banyan-llm/banyan/gossip/mesh"
	"github.com/banyan-llm/banyan/router/access"
)

// keygen prints a gossip key or a client's key, or writes a mesh authority and
// certificates.
func keygen(_ context.Context, args []string, stdout, _ io.Writer) error {
	fs := flagSet("keygen", stdout)
	dir := fs.String("mesh-certs", "", "folder to write a mesh CA and one certificate with its key into (PEM), instead of a gossip key; all peers may share the pair")
	client := fs.String("client", "", "make an API key for the client of this name and its line for auth.keys_file, instead of a gossip key")
	tenant := fs.String("tenant", "", "with --client: tenant of this client (default: the client's name; * = the tenant named in the isolate_by header)")
	admin := fs.String("admin", "", "make an API key for the operator of this name and its line for admin.keys_file, instead of a gossip key")
	readOnly := fs.Bool("read-only", false, "with --admin: the key may read (status, metrics, console), not change anything")
	if err := parse(fs, args); err != nil {
		return err
	}
	if err := noArguments(fs); err != nil {
		return err
	}
	if what := strings.Join(given(fs, "mesh-certs", "client", "admin"), ", "); strings.Contains(what, ",") {
		return usageError{fmt.Errorf("%s: one key or folder at a time", what)}
	}
	switch {
	case *tenant != "" && *client == "" || *readOnly && *admin == "":
		return usageError{errors.New("--tenant goes with --client, --read-only with --admin")}
	case strings.ContainsAny(*client+*admin, ":\n") || strings.ContainsAny(*tenant, " \t\n"):
		return usageError{errors.New("a name has no colon, a tenant no space")}
	case *client != "" && *tenant != "":
		return newKey(stdout, "auth.keys_file", *client, "tenant="+*tenant)
	case *client != "":
		return newKey(stdout, "auth.keys_file", *client)
	case *admin != "" && *readOnly:
		return newKey(stdout, "admin.keys_file", *admin, "role=read")
	case *admin != "":
		return newKey(stdout, "admin.keys_file", *admin)
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

// given lists which of the named flags a command line has set to something.
func given(fs *flag.FlagSet, names ...string) []string {
	var out []string
	for _, name := range names {
		if fs.Lookup(name).Value.String() != "" {
			out = append(out, "--"+name)
		}
	}
	return out
}

// newKey prints a key and the line of a file that admits it.
func newKey(w io.Writer, file, name string, attributes ...string) error {
	key, line := access.NewKey(name, attributes...)
	_, err := fmt.Fprintf(w, "key (shown once): %s\nline for %s: %s\n", key, file, line)
	return err
}
