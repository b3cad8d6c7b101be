package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/banyan-llm/banyan/router"
)

// serve runs one router peer until SIGTERM or SIGINT, then drains.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	l, err := loadConfig(args, os.Environ(), stdout)
	if err != nil {
		return err
	}
	if l.print {
		return printConfig(stdout, l.cfg)
	}
	log, lines := newLogger(&l.cfg.Log, stderr)
	defer lines.close()
	peer, err := router.New(l.cfg, router.Options{Version: version, Logger: log, LogDropped: lines.dropped.Load, Stdout: stdout, Source: l.source(args)})
	var faults *router.ConfigError
	switch {
	case errors.As(err, &faults):
		return usageError{faults.Faults}
	case err != nil:
		return err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	go func() { // ends with the process
		for range hangup {
			peer.Reload()
		}
	}()
	a := peer.Addresses()
	fmt.Fprintf(stdout, "banyan peer %s http=%s admin=%s mesh=%s\n", a.Name, a.HTTP, a.Admin, a.Mesh)
	return peer.Run(ctx)
}

// validate reads a configuration as serve would, and the files it names, and
// says what is wrong with it without starting anything.
func validate(_ context.Context, args []string, stdout, _ io.Writer) error {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		args = append([]string{"--config", args[0]}, args[1:]...)
	}
	l, err := loadConfig(args, os.Environ(), io.Discard) // the help is another one
	switch {
	case errors.Is(err, flag.ErrHelp):
		flagSet("validate", stdout).Usage()
		fmt.Fprintln(stdout, "  FILE    the configuration (YAML), as --config of banyan serve")
		fmt.Fprintln(stdout, "\nEvery setting that banyan serve --help lists is a flag here too; a flag wins over FILE.")
		return err
	case l.path == "":
		return usageError{errors.Join(l.misused, errors.New("name the configuration file: banyan validate banyan.yaml"))}
	case err != nil:
		return err
	}
	var faults *router.ConfigError
	switch err := router.Check(l.cfg); {
	case errors.As(err, &faults):
		return usageError{faults.Faults}
	case err != nil:
		return err
	}
	fmt.Fprintf(stdout, "%s is valid. Relative paths in it were looked up from the current folder. No network address was checked.\n", l.path)
	if d := &l.cfg.Discovery; len(l.cfg.Replicas) == 0 && len(d.DNS) == 0 && d.Kubernetes.Selector == "" {
		fmt.Fprintln(stdout, "warning: no replica is listed and discovery is off: every request would get 503")
	}
	return nil
}

// source reads the configuration anew, from the same flags, environment and
// file. A file emptied for a moment must not pass for one that says nothing.
func (l *loaded) source(args []string) router.Source {
	if l.path == "" {
		return router.Source{}
	}
	path := l.path
	return router.Source{Files: []string{path}, Load: func() (router.Config, error) {
		if info, err := os.Stat(path); err == nil && info.Size() == 0 {
			return router.Config{}, fmt.Errorf("%s is empty", path)
		}
		again, err := loadConfig(args, os.Environ(), io.Discard)
		return again.cfg, err
	}}
}
