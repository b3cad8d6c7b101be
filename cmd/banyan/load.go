package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/banyan-llm/banyan/router"
)

// envPrefix begins every environment variable: BANYAN_SECTION_KEY.
const envPrefix = "BANYAN_"

// option is one leaf of the configuration.
type option struct {
	key    string // dotted YAML path, also the flag's name
	doc    string
	secret bool
	value  reflect.Value
}

// env is the option's environment variable.
func (o option) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(o.key, ".", "_"))
}

// options lists every leaf of a configuration.
func options(cfg *router.Config) []option {
	var out []option
	for _, s := range router.Settings(cfg) {
		out = append(out, option{key: s.Key, doc: s.Doc, secret: s.Secret, value: s.Value})
	}
	return out
}

// set parses text into the option: strings as they are, lists of strings by
// comma, everything else as YAML.
func (o option) set(text string) error {
	switch dst := o.value.Addr().Interface().(type) {
	case *string:
		*dst = text
		return nil
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%s: %q is not a duration like 15s", o.key, text)
		}
		*dst = d
		return nil
	case *[]string:
		*dst = nil
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*dst = append(*dst, item)
			}
		}
		return nil
	}
	fresh := reflect.New(o.value.Type())
	if err := strictYAML([]byte(text), fresh.Interface()); err != nil {
		switch kind := kindName(o.value.Type()); o.value.Kind() {
		case reflect.Bool:
			return fmt.Errorf("%s: %q is not %s", o.key, text, kind)
		case reflect.Slice, reflect.Map, reflect.Struct: // what of it is wrong
			return fmt.Errorf("%s: %q is not a %s: %w", o.key, text, kind, err)
		default:
			return fmt.Errorf("%s: %q is not a %s", o.key, text, kind)
		}
	}
	o.value.Set(fresh.Elem())
	return nil
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint64:
		return "whole number"
	case reflect.Float64, reflect.Float32:
		return "number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "list"
	}
	return t.Kind().String()
}

// flagValue lets the flag package set an option.
type flagValue struct {
	opt  option
	set  map[string]string
	bool bool
}

func (f flagValue) String() string     { return "" }
func (f flagValue) IsBoolFlag() bool   { return f.bool }
func (f flagValue) Set(s string) error { f.set[f.opt.key] = s; return nil }

// loaded is what the command line, environment and file amount to.
type loaded struct {
	cfg   router.Config
	path  string
	print bool

	misused error // what is wrong with the command line alone
}

// usageError marks faults of the command line or configuration: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// loadConfig layers default < file < environment < flag. All faults come back
// at once, each beginning with its key. Help that args ask for goes to help.
func loadConfig(args []string, environ []string, help io.Writer) (loaded, error) {
	l := loaded{cfg: router.DefaultConfig()}
	opts := options(&l.cfg)
	flags := flag.NewFlagSet("banyan serve", flag.ContinueOnError)
	flagged := map[string]string{}
	for _, o := range opts {
		flags.Var(flagValue{opt: o, set: flagged, bool: o.value.Kind() == reflect.Bool}, o.key, o.doc)
	}
	insecure := flags.Bool("insecure-mesh", false, "run the mesh without a gossip key")
	open := flags.Bool("insecure-admin", false, "let anybody use an admin listener beyond loopback")
	flags.StringVar(&l.path, "config", "", "YAML file")
	flags.BoolVar(&l.print, "print-config", false, "print the effective configuration and exit")
	flags.Usage = func() { serveUsage(help, opts) }
	given := parse(flags, args)
	if errors.Is(given, flag.ErrHelp) {
		return l, given
	}
	if l.misused = given; given == nil { // behind a flag that is not known, a word may be its value
		l.misused = noArguments(flags)
	}
	errs := []error{l.misused}
	var lines map[string]int // of the keys whose values come from the file
	unread := false
	if l.path != "" {
		var err error
		lines, err = readFile(l.path, &l.cfg)
		errs = append(errs, err)
		unread = errors.Is(err, errUnread)
	}
	errs = append(errs, readEnv(environ, opts))
	for _, o := range opts {
		if _, ok := flagged[o.key]; ok || slices.ContainsFunc(environ, func(pair string) bool { return strings.HasPrefix(pair, o.env()+"=") }) {
			delete(lines, o.key)
		}
	}
	for _, o := range opts {
		if text, ok := flagged[o.key]; ok {
			errs = append(errs, o.set(text))
		}
	}
	if *insecure {
		l.cfg.Mesh.Insecure = true
	}
	if *open {
		l.cfg.Admin.Insecure = true
	}
	if !unread { // else what the file says would count as missing
		errs = append(errs, withLines(l.cfg.Validate(), lines))
	}
	if err := errors.Join(errs...); err != nil {
		if !unread { // what else would come up at the next start
			err = errors.Join(err, router.FileFaults(l.cfg))
		}
		return l, usageError{err}
	}
	return l, nil
}

// maxConfigBytes bounds the configuration's file.
const maxConfigBytes = 4 << 20

// errUnread says that nothing is known of what a configuration file says.
var errUnread = errors.New("the file cannot be read")

// unreadable is a fault of the file as a whole. It reads as err alone.
type unreadable struct{ error }

func (u unreadable) Unwrap() []error { return []error{u.error, errUnread} }

// readFile reads the file into cfg and tells the lines of its keys.
func readFile(path string, cfg *router.Config) (lines map[string]int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable{fmt.Errorf("%s: %w", path, bare(err))}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err == nil && len(data) > maxConfigBytes {
		err = fmt.Errorf("larger than %d bytes", maxConfigBytes)
	}
	if err != nil {
		return nil, unreadable{fmt.Errorf("%s: %w", path, bare(err))}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, unreadable{fmt.Errorf("%s: %w (check brackets and quotes; indent with spaces, not tabs)", path, err)}
	}
	if lines, err = keyFaults(&doc, reflect.TypeOf(cfg).Elem()); err != nil {
		_ = yaml.Unmarshal(data, cfg) // what is right counts, so that no other fault is made up
		return lines, err             // each with its line
	}
	if err := strictYAML(data, cfg); err != nil {
		return lines, fmt.Errorf("%s: %w", path, err)
	}
	return lines, nil
}

// bare is the cause of a file's error without the file's name.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// strictYAML decodes one document; unknown keys are errors.
func strictYAML(data []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err := dec.Decode(into)
	var te *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &te):
		return errors.New(strings.Join(te.Errors, "; "))
	case err != nil:
		return err
	}
	var more any
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("more than one YAML document")
	}
	return nil
}

func readEnv(environ []string, opts []option) error {
	byName := map[string]option{}
	for _, o := range opts {
		byName[o.env()] = o
	}
	var errs []error
	for _, pair := range environ {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(clientVariables, name) {
			continue
		}
		o, ok := byName[name]
		if !ok {
			errs = append(errs, fmt.Errorf("%s: no such setting%s", name, nearest(name, byName, len(envPrefix))))
			continue
		}
		if err := o.set(text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// nearest suggests a known name that shares the longest prefix, of more than
// least bytes.
func nearest[V any](name string, known map[string]V, least int) string {
	best, length := "", least
	for candidate := range known {
		n := 0
		for n < len(name) && n < len(candidate) && name[n] == candidate[n] {
			n++
		}
		if n > length || n == length && best != "" && candidate < best {
			best, length = candidate, n
		}
	}
	if best == "" {
		return ""
	}
	return ", did you mean " + best + "?"
}

// sections head the groups of settings in the help, in its order; a setting
// without a section of its own stands in the first group.
var sections = [][2]string{
	{"", "Replicas, policy, prefix index"},
	{"discovery", "Replica discovery"},
	{"http", "Client listener (OpenAI API)"},
	{"auth", "Client keys"},
	{"admin", "Admin listener"},
	{"mesh", "Mesh: the other peers"},
	{"ingest", "KV events of the engines"},
	{"limits", "Limits"},
	{"admission", "Admission: queues before full replicas"},
	{"hedge", "Hedging: second tries of slow streamed requests"},
	{"drain", "Peer shutdown (drain)"},
	{"tracing", "Tracing (OpenTelemetry)"},
	{"log", "Log (on stderr)"},
	{"access_log", "Access log"},
	{"routing", "Routing policies; prefill/decode split"},
}

// sectionOf is the index of a setting's group.
func sectionOf(key string) int {
	name, _, nested := strings.Cut(key, ".")
	return max(0, slices.IndexFunc(sections, func(s [2]string) bool { return nested && s[0] == name }))
}

// serveUsage prints every setting with its default, by section.
func serveUsage(w io.Writer, opts []option) {
	fmt.Fprintln(w, "usage: banyan serve [--config banyan.yaml] [flags]")
	fmt.Fprintln(w, "\nEvery flag is also a YAML key and an environment variable: --mesh.tls.cert is mesh: {tls: {cert: …}} and BANYAN_MESH_TLS_CERT.")
	fmt.Fprintln(w, "Later wins: default, file, environment, flag. Lists of names are written with commas, other lists and maps as YAML in one line:")
	fmt.Fprintln(w, "--mesh.join a:7946,b:7946 and --admission.key_classes '{batch: 2}'.")
	fmt.Fprintln(w, "\nThe command")
	for _, f := range [][2]string{
		{"config file", "file with the configuration (YAML)"},
		{"print-config", "print the configuration that results, secrets masked, and exit"},
		{"insecure-mesh", "short for --mesh.insecure"},
		{"insecure-admin", "short for --admin.insecure"},
	} {
		fmt.Fprintf(w, "  --%-42s %s\n", f[0], f[1])
	}
	sorted := slices.Clone(opts)
	slices.SortFunc(sorted, func(a, b option) int {
		return cmp.Or(cmp.Compare(sectionOf(a.key), sectionOf(b.key)), strings.Compare(a.key, b.key))
	})
	last := -1
	for _, o := range sorted {
		if o.doc == "" {
			continue
		}
		if at := sectionOf(o.key); at != last {
			fmt.Fprintf(w, "\n%s\n", sections[at][1])
			last = at
		}
		text := o.doc
		if def := o.defaultText(); def != "" {
			text += " (default " + def + ")"
		}
		fmt.Fprintf(w, "  --%-42s %s\n", strings.TrimSpace(o.key+" "+o.kindWord()), text)
	}
}

// kindWord is what the help calls the option's values; empty for a switch.
func (o option) kindWord() string {
	switch t := o.value.Type(); {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Kind() == reflect.Bool:
		return ""
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32:
		return "float"
	case t.Kind() == reflect.String || t.Kind() == reflect.Map:
		return t.Kind().String()
	}
	return "int"
}

// defaultText is the option's value as people write it; empty for none.
func (o option) defaultText() string {
	switch v := o.value; v.Kind() {
	case reflect.Bool:
		if !v.Bool() {
			return "" // as every switch
		}
	case reflect.Slice, reflect.Map:
		if v.Len() == 0 {
			return ""
		}
	case reflect.Float64, reflect.Float32:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	case reflect.Int64:
		if n := v.Int(); strings.HasSuffix(o.key, "_bytes") && n > 0 && n%(1<<20) == 0 {
			return fmt.Sprintf("%d, %d MiB", n, n>>20)
		}
	}
	return fmt.Sprint(o.value.Interface())
}

// printConfig writes the configuration as YAML with secrets masked.
func printConfig(w io.Writer, cfg router.Config) error {
	maskSecrets(reflect.ValueOf(&cfg).Elem())
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	defer enc.Close()
	return enc.Encode(cfg)
}

const masked = "(secret)"

func maskSecrets(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if v.Type().Field(i).Tag.Get("secret") != "" && f.Kind() == reflect.String && f.String() != "" {
				f.SetString(masked)
				continue
			}
			if f.CanSet() {
				maskSecrets(f)
			}
		}
	case reflect.Slice:
		if v.Len() == 0 || v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		fresh := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(fresh, v)
		v.Set(fresh)
		for i := range v.Len() {
			maskSecrets(v.Index(i))
		}
	}
}
