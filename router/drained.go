package router

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/policy"
)

// leaveDrained drops the candidates that an operator drained, as long as another
// one of the same role is left: before anybody asks who is full, for a full pool
// is no reason to use them. A hedge is never sent to one.
func (s *scratch) leaveDrained(hedge bool) {
	drained := func(c *policy.Candidate) bool { return c.Weight == 0 }
	some := false
	for i := range s.Cands { // in place: candidates are large, and every request comes by
		some = some || drained(&s.Cands[i])
	}
	if !some {
		return
	}
	stays := map[string]bool{}
	for i := range s.Cands {
		if c := &s.Cands[i]; !drained(c) {
			stays[s.replicas[c.Index].Spec.Role] = true
		}
	}
	s.Cands = slices.DeleteFunc(s.Cands, func(c policy.Candidate) bool {
		role := s.replicas[c.Index].Spec.Role
		return drained(&c) && (hedge || stays[role] || stays["both"])
	})
}

// operators carries out what operators say of replicas.
type operators struct {
	fleet *fleet.Fleet
	loads *load.Table
	mesh  *link
	log   hclog.Logger
}

// lastOf names the models for which a replica is the last one that takes
// requests.
func (op *operators) lastOf(r *fleet.Replica) (models []string) {
	for _, m := range r.Models() {
		other := slices.ContainsFunc(op.fleet.List(), func(o *fleet.Replica) bool {
			_, serves := o.Serves(m.ID)
			return o != r && serves && o.Spec.Kind == fleet.KindReplica && o.Spec.Role == r.Spec.Role && o.Up() && !op.loads.Draining(o.Stream)
		})
		if !other {
			models = append(models, m.ID)
		}
	}
	return models
}

// tellIntent logs what an operator did; a warning is one in the log too.
func (op *operators) tellIntent(replica, verb, by, warning string) {
	if warning != "" {
		op.log.Warn("an operator drained the last replica of a model", "replica", replica, "by", by, "warning", warning)
		return
	}
	op.log.Info("an operator "+verb+"ed a replica", "replica", replica, "by", by)
}

// serveIntent drains or undrains a replica, mesh-wide. The answer warns of the
// last one of a model; who asks with force=false is refused it.
func (op *operators) serveIntent(w http.ResponseWriter, r *http.Request) {
	name, verb := splitLast(r.PathValue("id"))
	if verb != "drain" && verb != "undrain" {
		writeError(w, http.StatusNotFound, fmt.Errorf("no such action %q: drain or undrain", verb))
		return
	}
	replica := op.fleet.Get(name)
	if replica == nil {
		writeError(w, http.StatusNotFound, fmt.Errorf("no replica %q; banyan status (GET /v1/status) lists them", name))
		return
	}
	last := op.lastOf(replica)
	warning := ""
	said := map[string]any{"replica": name, "state": verb}
	if verb == "drain" && len(last) > 0 {
		models := strings.Join(last, ", ")
		if r.URL.Query().Get("force") == "false" {
			writeError(w, http.StatusConflict, errors.New("not drained: "+name+" is the only replica left for "+models+" and would keep getting its requests. Start or undrain another replica first, or use --force"))
			return
		}
		warning = name + " is the only replica left for " + models + " and keeps getting its requests"
		said["warning"] = warning
	}
	if op.loads.Draining(replica.Stream) == (verb == "drain") {
		said["already"] = true
	}
	op.loads.SetIntent(replica.Stream, verb == "drain", time.Now().UnixMilli())
	op.mesh.intentChanged()
	op.tellIntent(name, verb, access.OperatorOf(r), warning)
	writeJSON(w, http.StatusOK, said)
}
