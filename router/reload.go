package router

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
)

// Source is where a peer's configuration comes from.
type Source struct {
	Files []string               // what Load reads
	Load  func() (Config, error) // all faults at once, by key; nil: never anew
}

// inForce is the configuration that a peer goes by, and how it is replaced.
type inForce struct {
	atomic.Pointer[rules]
	source  Source
	hangup  chan struct{} // asks for a look at the files now
	metrics *metrics.Metrics
	log     hclog.Logger
	// takeUp puts new rules in force, or changes nothing.
	takeUp func(old, next *rules) error

	reloadFault atomic.Pointer[string]   // why the last reload failed; nil if it did not
	restart     atomic.Pointer[[]string] // settings that wait for a restart
}

// config is what the peer goes by now. A reload stores another one, so read it
// once where two settings must agree.
func (c *inForce) config() *Config { return c.Load().cfg }

// followEvery is how often files are looked at. A change is read when it has
// stood still for one look, so that a file is not read half written.
const followEvery = time.Second

// reloadable are the settings, and sections of them, that a running peer takes
// up; the others are named in the log and wait for a restart. What decides who
// may come in (whether there are keys, TLS, tenants) is not among them: a file
// cut short must not open a door.
var reloadable = []string{
	"replicas", "policy", "routing", "http.policy_override", "limits", "drain", "admin.hosts", "ingest.token",
	"admission.replica_limit", "admission.engine_queue", "admission.kv_load", "mesh.key", "log.level",
	"access_log.mode", "access_log.slow", "access_log.sample",
}

// fixed are the exceptions: sizes given at the start, and what all peers of a
// mesh must agree on.
var fixed = []string{"routing.disaggregate.mode", "limits.tokenize", "limits.memory", "limits.predictions"}

func isReloadable(key string) bool {
	under := func(section string) bool { return key == section || strings.HasPrefix(key, section+".") }
	return slices.ContainsFunc(reloadable, under) && !slices.ContainsFunc(fixed, under)
}

// merged is old with what may change taken from wanted, what that is, and what
// must wait for a restart.
func merged(old, wanted *Config) (cfg Config, changed, restart []string) {
	cfg = *old
	from := Settings(wanted)
	for i, s := range Settings(&cfg) {
		is, want := s.Value, from[i].Value
		switch {
		case reflect.DeepEqual(is.Interface(), want.Interface()):
		case !isReloadable(s.Key):
			restart = append(restart, s.Key)
		default:
			changed = append(changed, describe(&s, is, want))
			is.Set(want)
		}
	}
	return cfg, changed, restart
}

// describe tells a change without secrets.
func describe(s *Setting, is, want reflect.Value) string {
	switch is.Kind() {
	case reflect.Slice, reflect.Map:
		return s.Key
	}
	if s.Secret {
		return s.Key
	}
	return fmt.Sprintf("%s: %v -> %v", s.Key, is.Interface(), want.Interface())
}

// Reload takes up changed files now instead of within seconds: what SIGHUP asks
// for. It never blocks.
func (p *Peer) Reload() {
	select {
	case p.rules.hangup <- struct{}{}:
	default:
	}
}

// followConfig takes up changes of the configuration and of the files it names
// until ctx ends.
func (c *inForce) followConfig(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	last, failing := c.Load().files, false
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-c.hangup:
			asked = true
		case <-tick.C:
		}
		read := c.Load().files
		now := read.again()
		moving := !now.equal(last)
		last = now
		// After a failure the files may change faster than they are looked at.
		if asked || !moving && (failing || !now.equal(read)) {
			failing = c.reload(asked) != nil
		}
	}
}

// reload puts the configuration and files of now in force, or changes nothing
// and reports every fault at once. A fault that stands is logged once.
func (c *inForce) reload(asked bool) error {
	old := c.Load()
	next, changed, restart, err := c.nextRules(old)
	if err == nil {
		err = c.takeUp(old, next)
	}
	if err != nil {
		c.metrics.ReloadFailures.Inc()
		if news := c.reloadFault.Swap(new(err.Error())); asked || news == nil || *news != err.Error() {
			c.log.Error("configuration rejected: the old one stays in force", "faults", faults(err))
		}
		c.metrics.ReloadOK.Set(0)
		return err
	}
	if c.reloadFault.Swap(nil) != nil {
		c.log.Info("configuration is valid again")
	}
	c.metrics.ReloadOK.Set(1)
	c.metrics.Reloads.Inc()
	waiting := c.restart.Swap(&restart)
	named := fileChanges(old, next)
	if slices.ContainsFunc(named, func(s string) bool { return strings.HasPrefix(s, "replicas: ") }) {
		changed = slices.DeleteFunc(changed, func(s string) bool { return s == "replicas" }) // named says which
	}
	changed = append(changed, named...)
	if asked || len(changed) > 0 {
		c.log.Info("configuration applied", "changed", changed)
	}
	if len(restart) > 0 && (asked || waiting == nil || !slices.Equal(*waiting, restart)) {
		later, newMesh := console.Pending(restart)
		if later != nil {
			c.log.Warn("restart this peer to apply these settings, until then the old ones stay in force", "keys", later)
		}
		if newMesh != nil {
			c.log.Warn("peers must agree on these settings: the change needs a new mesh, do not restart this peer with it (deploy/README.md#upgrade-and-roll-back)", "keys", newMesh)
		}
	}
	return nil
}

// nextRules reads everything anew.
func (c *inForce) nextRules(old *rules) (next *rules, changed, restart []string, err error) {
	cfg := *old.told
	if c.source.Load != nil {
		wanted, err := c.source.Load()
		if err != nil {
			return nil, nil, nil, err
		}
		cfg, changed, restart = merged(old.told, &wanted)
	}
	next, err = makeRules(&cfg, c.source.Files, time.Now())
	return next, changed, restart, err
}

// takeUp puts new rules in force. What can fail comes first.
func (p *Peer) takeUp(old, next *rules) error {
	if !slices.Equal(old.ring, next.ring) {
		if err := p.mesh.setKeys(next.ring); err != nil {
			return fmt.Errorf("mesh.keyring: %w", err)
		}
	}
	p.metrics.StartAtZero(next.cfg.Policy)
	p.rules.Store(next)
	p.fleet.Set(next.cfg.Replicas, time.Now())
	p.log.SetLevel(hclog.LevelFromString(next.cfg.Log.Level))
	if api := p.front.api.Load(); api != nil {
		api.SetLimits(proxyLimits(&next.cfg.Limits))
	}
	return nil
}

// fileChanges names what changed in files, without what stands in them.
func fileChanges(old, next *rules) (out []string) {
	if a, b := replicaNames(old), replicaNames(next); !slices.Equal(a, b) {
		out = append(out, fmt.Sprintf("replicas: %s -> %s", strings.Join(a, " "), strings.Join(b, " ")))
	}
	if !slices.Equal(old.Clients, next.Clients) {
		out = append(out, fmt.Sprintf("auth.keys_file: %d keys", len(next.Clients)))
	}
	if !slices.Equal(old.Admins, next.Admins) {
		out = append(out, fmt.Sprintf("admin.keys_file: %d keys", len(next.Admins)))
	}
	if !slices.Equal(old.ring, next.ring) {
		out = append(out, fmt.Sprintf("mesh.keyring: %d keys", len(next.ring)))
	}
	for section, c := range map[string][2]*access.Certificate{"http.tls": {old.HTTP, next.HTTP}, "admin.tls": {old.Admin, next.Admin}} {
		switch {
		case c[1] == nil:
		case !c[0].Leaf.Equal(c[1].Leaf):
			out = append(out, fmt.Sprintf("%s.cert: until %s", section, c[1].Leaf.NotAfter.UTC().Format(time.RFC3339)))
		case c[1].Server.ClientCAs != nil && !c[0].Server.ClientCAs.Equal(c[1].Server.ClientCAs):
			out = append(out, section+".client_ca")
		}
	}
	return out
}

func replicaNames(r *rules) []string {
	out := make([]string, 0, len(r.cfg.Replicas))
	for i := range r.cfg.Replicas {
		out = append(out, fleet.NameOf(r.cfg.Replicas[i]))
	}
	return out
}

// faults lists the lines of a joined error.
func faults(err error) []string {
	if bad, ok := errors.AsType[*ConfigError](err); ok {
		err = bad.Faults
	}
	return strings.Split(err.Error(), "\n")
}
