package fleet

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// Template is what discovery cannot find out about its replicas.
type Template struct {
	Engine      string `yaml:"engine" doc:"engine of discovered replicas: vllm, sglang, trtllm or auto"`
	EventsPort  int    `yaml:"events_port" doc:"port of the replicas' KV events; 0 = the one that the engine reports, if it reports one"`
	ReplayPort  int    `yaml:"replay_port" doc:"port of the replicas' event replay; 0 = the one that the engine reports, if it reports one"`
	Ranks       int    `yaml:"ranks" doc:"data-parallel ranks behind each address, routed to as replicas of their own; 0 = as many as the engine reports"`
	Topic       string `yaml:"topic" doc:"ZeroMQ topic prefix of the replicas' KV events"`
	Role        string `yaml:"role" doc:"role of discovered replicas: both, prefill or decode"`
	Model       string `yaml:"model" doc:"model of discovered replicas; default: what /v1/models lists"`
	Credentials string `yaml:"credentials" doc:"bearer token for the replicas" secret:"true"`
}

// Validate reports every fault by key.
func (t *Template) Validate(key string) error {
	var errs []error
	for field, port := range map[string]int{"events_port": t.EventsPort, "replay_port": t.ReplayPort} {
		if port < 0 || port > 65535 {
			errs = append(errs, fmt.Errorf("%s.%s: %d is not from 0 to 65535", key, field, port))
		}
	}
	if t.Ranks < 0 || t.Ranks > maxRanks {
		errs = append(errs, fmt.Errorf("%s.ranks: %d is not from 0 to %d", key, t.Ranks, maxRanks))
	}
	if err := checkWord("engine", t.Engine, "", engineAuto, vllm, sglang, trtllm); err != nil {
		errs = append(errs, fmt.Errorf("%s.%w", key, err))
	}
	if err := checkWord("role", t.Role, "", "both", "prefill", "decode"); err != nil {
		errs = append(errs, fmt.Errorf("%s.%w", key, err))
	}
	return errors.Join(errs...)
}

// spec describes one discovered replica. host is an IP address.
func (t *Template) spec(name, scheme, host string, port int) Spec {
	at := func(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
	s := Spec{
		Name: name, URL: scheme + "://" + at(port), Engine: t.Engine, Ranks: t.Ranks, Topic: t.Topic, Role: t.Role, Model: t.Model, Credentials: t.Credentials,
	}
	if t.EventsPort > 0 {
		s.Events = "tcp://" + at(t.EventsPort)
	}
	if t.ReplayPort > 0 {
		s.Replay = "tcp://" + at(t.ReplayPort)
	}
	return s
}
