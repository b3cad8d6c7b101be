package router

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/policy"
)

// rules are what a reload replaces, all at one stroke: the configuration and
// what was read from the files it names. They are immutable.
type rules struct {
	told         *Config // as it was given
	cfg          *Config // with the replicas' credentials filled in
	policies     map[string]policy.Policy
	access.Rules          // keys and certificates, as they were read
	ring         []string // gossip keys; the first one sends
	secret       []byte   // that keys every block hash; one that was changed waits for a restart
	print        string   // of told, as other peers compare it: settingsPrint
	at           time.Time
	files        fileStates // of the files before they were read
}

// ConfigError holds every fault of a configuration, each beginning with its
// key, one a line.
type ConfigError struct{ Faults error }

func (e *ConfigError) Error() string { return e.Faults.Error() }
func (e *ConfigError) Unwrap() error { return e.Faults }

// Check finds every fault that a peer with this configuration would not start
// with, or would not take up: settings, and the files they name. It opens no
// socket. The error is a *ConfigError.
func Check(cfg Config) error {
	_, err := makeRules(&cfg, nil, time.Now())
	return err
}

// FileFaults finds what is wrong with the files that a configuration names,
// whatever is wrong with its settings. That one does not exist is a fault of the
// settings (Validate).
func FileFaults(cfg Config) error {
	told, faults := cfg.withCredentials()
	faults = append(faults, new(rules).readFiles(told, time.Now())...)
	return errors.Join(slices.DeleteFunc(faults, func(err error) bool { return errors.Is(err, fs.ErrNotExist) })...)
}

// makeRules validates a configuration and reads every file it names. All faults
// come back at once, each beginning with its key; nothing else happens.
func makeRules(cfg *Config, more []string, now time.Time) (*rules, error) {
	files := slices.AppendSeq(slices.Clone(more), maps.Values(cfg.named()))
	told := cfg
	cfg, known := cfg.withCredentials()
	r := &rules{told: told, cfg: cfg, policies: map[string]policy.Policy{}, print: settingsPrint(told), at: now, files: fileStatesOf(files)}
	errs := []error{cfg.Validate()}
	fault := func(err error) {
		if named := errs[0] != nil && errors.Is(err, fs.ErrNotExist); err != nil && !named {
			errs = append(errs, err)
		}
	}
	note := func(key string, err error) {
		if err != nil {
			fault(fmt.Errorf("%s: %w", key, err))
		}
	}
	for _, err := range known {
		fault(err)
	}
	if errs[0] == nil {
		var err error
		cfg.Routing.Cost.Block = cfg.Grid
		for _, name := range policy.Names() {
			r.policies[name], err = policy.New(name, cfg.Routing)
			note("routing", err)
		}
	}
	for _, err := range r.readFiles(cfg, now) {
		fault(err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &ConfigError{err}
	}
	return r, nil
}

// readFiles reads the keys and certificates that a configuration names, and
// returns every fault, each beginning with its key.
func (r *rules) readFiles(cfg *Config, now time.Time) (faults []error) {
	fault := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	note := func(key string, err error) {
		if err != nil {
			fault(fmt.Errorf("%s: %w", key, err))
		}
	}
	r.TenantHeader, r.Listen, r.Hosts, r.Origins = cfg.IsolateBy, cfg.Admin.Listen, cfg.Admin.Hosts, cfg.HTTP.AllowedOrigins
	var err error
	if cfg.Auth.KeysFile != "" {
		r.Clients, err = access.ReadKeys(cfg.Auth.KeysFile, access.TenantAttribute)
		note("auth.keys_file", err)
	}
	if cfg.Admin.KeysFile != "" {
		r.Admins, err = access.ReadKeys(cfg.Admin.KeysFile, access.RoleAttribute)
		note("admin.keys_file", err)
	}
	r.HTTP, err = access.ReadCertificate(&cfg.HTTP.TLS, "http.tls", now)
	fault(err)
	r.Admin, err = access.ReadCertificate(&cfg.Admin.TLS, "admin.tls", now)
	fault(err)
	r.ring, err = keyring(cfg.Mesh)
	fault(err)
	r.secret, err = hashSecret(cfg)
	fault(err)
	fault(meshFiles(&cfg.Mesh).Check())
	return faults
}
