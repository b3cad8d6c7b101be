package fleet

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/banyan-llm/banyan/crdt"
)

// Spec is what configuration or discovery says of one replica.
type Spec struct {
	Name        string            `yaml:"name,omitempty"`     // default host:port, with /rank if the rank is not 0
	URL         string            `yaml:"url"`                // base URL, http or https
	Engine      string            `yaml:"engine,omitempty"`   // vllm, sglang, trtllm, or auto (default): ask it
	Events      string            `yaml:"events,omitempty"`   // the engine's PUB endpoint, tcp://host:port; poll for TensorRT-LLM
	Replay      string            `yaml:"replay,omitempty"`   // the engine's replay endpoint
	Topic       string            `yaml:"topic,omitempty"`    // SUB prefix; default all
	Rank        int               `yaml:"rank,omitempty"`     // data-parallel rank
	Ranks       int               `yaml:"ranks,omitempty"`    // data-parallel ranks behind the URL, each a replica; 0: as the engine tells
	Role        string            `yaml:"role,omitempty"`     // both, prefill or decode
	Kind        string            `yaml:"kind,omitempty"`     // replica, pool or render
	Model       string            `yaml:"model,omitempty"`    // default: what /v1/models says
	Priority    string            `yaml:"priority,omitempty"` // what the engine's queue goes by: lower-first or higher-first; "": nothing, none is passed on
	P2P         string            `yaml:"p2p,omitempty"`      // host:port at which its engine hands KV blocks to other engines: vLLM's P2P tier; "": it does not
	Labels      map[string]string `yaml:"labels,omitempty"`
	Credentials string            `yaml:"credentials,omitempty" secret:"true"` // bearer token for the replica

	// Where Credentials stand instead: a file of one line, or a variable of the
	// environment. Whoever reads the configuration fills Credentials in.
	CredentialsFile string `yaml:"credentials_file,omitempty"`
	CredentialsEnv  string `yaml:"credentials_env,omitempty"`
}

// Kinds of what is listed. Only replicas are sent requests.
const (
	KindReplica = "replica"
	KindPool    = "pool"   // a cache layer that several replicas can load from
	KindRender  = "render" // a server that is only asked for the tokens of prompts
)

// Ways in which an engine's queue reads priorities: vLLM's with --scheduling-policy
// priority, and SGLang's with --enable-priority-scheduling.
const (
	LowerFirst  = "lower-first"
	HigherFirst = "higher-first"
)

// withDefaults fills in what was left out.
func (s Spec) withDefaults() Spec {
	s.URL = strings.TrimRight(s.URL, "/")
	if s.Engine == "" {
		s.Engine = engineAuto
	}
	if s.Role == "" {
		s.Role = "both"
	}
	if s.Kind == "" {
		s.Kind = KindReplica
	}
	if s.Name == "" {
		if u, err := url.Parse(s.URL); err == nil {
			s.Name = u.Host
		}
		if s.Rank != 0 {
			s.Name += "/" + strconv.Itoa(s.Rank)
		}
	}
	return s
}

// NameOf is the name a replica goes by.
func NameOf(s Spec) string { return s.withDefaults().Name }

// same reports whether two specs say the same.
func (s *Spec) same(b *Spec) bool {
	return s.Name == b.Name && s.URL == b.URL && s.Engine == b.Engine && s.Events == b.Events &&
		s.Replay == b.Replay && s.Topic == b.Topic && s.Rank == b.Rank && s.Ranks == b.Ranks && s.Role == b.Role &&
		s.Kind == b.Kind && s.Priority == b.Priority && s.P2P == b.P2P && s.Model == b.Model && s.Credentials == b.Credentials && maps.Equal(s.Labels, b.Labels)
}

// Stream is the identity of the replica's event stream.
func (s Spec) Stream() crdt.StreamID { return crdt.NewStreamID(s.URL, s.Rank) }

// ValidateSpecs reports every fault of a list of replicas, by key.
func ValidateSpecs(specs []Spec) error {
	var errs []error
	names := map[string]int{}
	streams := map[crdt.StreamID]int{}
	for i, raw := range specs {
		key := fmt.Sprintf("replicas[%d]", i)
		bad := func(field, format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s.%s: %s", key, field, fmt.Sprintf(format, args...)))
		}
		s := raw.withDefaults()
		u, err := url.Parse(s.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			bad("url", "%q is not an http:// or https:// address", s.URL)
			if j, ok := names[raw.Name]; ok {
				bad("name", "%q is already the name of replicas[%d]", raw.Name, j)
			} else if raw.Name != "" {
				names[raw.Name] = i
			}
			continue
		}
		if port := u.Port(); port != "" {
			if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
				bad("url", "port %q is not a number from 1 to 65535", port)
			}
		}
		switch {
		case u.User != nil:
			bad("url", "holds a user or password: give a bearer token under credentials, credentials_file or credentials_env")
		case u.RawQuery != "" || u.Fragment != "":
			bad("url", "%q has more than a host and a path", s.URL)
		case path.Base(u.Path) == "v1":
			bad("url", "%q ends in /v1: give what stands before it", s.URL)
		}
		if s.Rank < 0 {
			bad("rank", "%d is negative", s.Rank)
		}
		oneOf := func(field, value string, allowed ...string) {
			if err := checkWord(field, value, allowed...); err != nil {
				errs = append(errs, fmt.Errorf("%s.%w", key, err))
			}
		}
		oneOf("engine", s.Engine, engineAuto, vllm, sglang, trtllm)
		oneOf("role", s.Role, "both", "prefill", "decode")
		oneOf("priority", s.Priority, "", LowerFirst, HigherFirst)
		oneOf("kind", s.Kind, KindReplica, KindPool, KindRender)
		if s.P2P != "" {
			if err := s.checkP2P(); err != nil {
				bad("p2p", "%v", err)
			}
		}
		for field, endpoint := range map[string]string{"events": s.Events, "replay": s.Replay} {
			if endpoint == Poll && field == "events" && s.Engine != vllm && s.Engine != sglang {
				continue
			}
			if endpoint == "" {
				continue
			}
			if rest, ok := strings.CutPrefix(endpoint, "tcp://"); !ok {
				bad(field, "%q does not begin with tcp://", endpoint)
			} else if host, port, err := net.SplitHostPort(rest); err != nil || host == "" || port == "" {
				bad(field, "%q is not tcp://host:port", endpoint)
			} else if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
				bad(field, "port %q is not a number from 1 to 65535", port)
			}
		}
		if s.Events != "" && s.dialed(s.Events) == s.dialed(s.Replay) {
			bad("replay", "%q is also the events endpoint: an engine publishes on one port and replays on another", s.Replay)
		}
		if err := s.checkRanks(); err != nil {
			bad("ranks", "%v", err)
			s.Ranks = 0
		}
		for _, one := range s.expand(s.Ranks) {
			if j, ok := names[one.Name]; ok {
				bad("name", "%q is already the name of replicas[%d]", one.Name, j)
			}
			if j, ok := streams[one.Stream()]; ok {
				bad("url", "%s rank %d is already listed as replicas[%d]", one.URL, one.Rank, j)
			}
			names[one.Name], streams[one.Stream()] = i, i
		}
	}
	return errors.Join(errs...)
}

// checkWord reports a value that is not one of a field's.
func checkWord(field, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: %q is not one of %s", field, value, strings.TrimPrefix(strings.Join(allowed, ", "), ", "))
}
