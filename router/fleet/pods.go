package fleet

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// maxPods bounds what one selector may match.
const maxPods = maxReplicas

// Labels that say what a pod is, as llm-d sets them.
const (
	labelRole   = "llm-d.ai/role"
	labelEngine = "llm-d.ai/engine-type"
	labelKind   = "banyan-llm.github.io/kind" // ours: pool or render

	labelPriority = "banyan-llm.github.io/priority" // ours: lower-first or higher-first
	labelP2P      = "banyan-llm.github.io/p2p-port" // ours: of vLLM's P2P tier
)

// pod is the part of a Pod that discovery reads.
type pod struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Deletion        *string           `json:"deletionTimestamp"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Status struct {
		Phase      string `json:"phase"`
		IP         string `json:"podIP"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`

	wasReady bool // once ready it stays listed: whether it answers is for the probes
}

func (p *pod) key() string { return p.Metadata.Namespace + "/" + p.Metadata.Name }

// ready reports whether the kubelet says so now.
func (p *pod) ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// serves reports whether a pod is a replica: running, was ready once, and not
// on its way out.
func (p *pod) serves() bool {
	return p.wasReady && p.Metadata.Deletion == nil && p.Status.Phase == "Running"
}

// pods is the set a list and the watch after it describe.
type pods map[string]*pod

// put takes a pod's newest state.
func (ps pods) put(p *pod) {
	old := ps[p.key()]
	if old == nil && len(ps) >= maxPods {
		return
	}
	p.wasReady = p.ready() || old != nil && old.Metadata.UID == p.Metadata.UID && old.wasReady
	ps[p.key()] = p
}

// specs describes the pods that serve, by name, which begins with the
// namespace if there may be several.
func (ps pods) specs(port int, t *Template, several bool) []Spec {
	var out []Spec
	for _, p := range ps {
		ip, err := netip.ParseAddr(p.Status.IP)
		if err != nil || !p.serves() || forbidden(ip) {
			continue
		}
		name := p.Metadata.Name
		if several {
			name = p.key()
		}
		s := t.spec(name, "http", ip.Unmap().String(), port)
		if v := p.Metadata.Labels[labelEngine]; s.Engine == "" && checkWord("", v, vllm, sglang, trtllm) == nil {
			s.Engine = v
		}
		if v := p.Metadata.Labels[labelKind]; checkWord("", v, KindReplica, KindPool, KindRender) == nil {
			s.Kind = v
		}
		if v := p.Metadata.Labels[labelPriority]; checkWord("", v, LowerFirst, HigherFirst) == nil {
			s.Priority = v
		}
		at := Spec{Engine: s.Engine, P2P: net.JoinHostPort(ip.Unmap().String(), p.Metadata.Labels[labelP2P])}
		if at.checkP2P() == nil {
			s.P2P = at.P2P
		}
		if v := p.Metadata.Labels[labelRole]; s.Role == "" && checkWord("", v, "both", "prefill", "decode") == nil {
			s.Role = v
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Spec) int { return strings.Compare(a.Name+a.URL, b.Name+b.URL) })
	return out
}

// errGone says that the server does not know our version any more: list again.
var errGone = errors.New("the version watched from is gone")

// errEvent says that a line of a watch was no event.
var errEvent = errors.New("the watch sent no event")

// apply takes one line of a watch and returns the version it brings.
func (ps pods) apply(line []byte) (version string, err error) {
	var e struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if json.Unmarshal(line, &e) != nil {
		return "", errEvent
	}
	if e.Type == "ERROR" {
		var status struct {
			Code int `json:"code"`
		}
		if json.Unmarshal(e.Object, &status) == nil && status.Code == 410 {
			return "", errGone
		}
		return "", errEvent
	}
	p := &pod{}
	if json.Unmarshal(e.Object, p) != nil || p.Metadata.ResourceVersion == "" {
		return "", errEvent
	}
	switch e.Type {
	case "ADDED", "MODIFIED":
		if p.Metadata.Name == "" {
			return "", errEvent
		}
		ps.put(p)
	case "DELETED":
		delete(ps, p.key())
	case "BOOKMARK":
	default:
		return "", errEvent
	}
	return p.Metadata.ResourceVersion, nil
}
