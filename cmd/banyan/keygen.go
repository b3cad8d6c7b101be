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
	dir := fs.String("mesh-certs", "", "folder for a mesh CA and one certificate (PEM), instead of a key")
	client := fs.String("client", "", "name of a client: a bearer key and its line for auth.keys_file, instead of a gossip key")
	tenant := fs.String("tenant", "", "with --client: the tenant it belongs to (default: one of its own name; * = as the isolate_by header says)")
	admin := fs.String("admin", "", "name of an operator: a bearer key and its line for admin.keys_file, instead of a gossip key")
	readOnly := fs.Bool("read-only", false, "with --admin: a key that may look (status, metrics, page), not change")
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
