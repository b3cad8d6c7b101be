package router

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/report"
	"github.com/banyan-llm/banyan/router/requests"
)

// idPeer is how many bytes of a peer's id begin the ids of its requests: any
// peer then knows whose a request is, without asking.
const idPeer = 4

// journal names requests, remembers them and writes the access log.
type journal struct {
	rules     *inForce
	id        crdt.PeerID
	name      string
	mesh      *link
	directory *directory
	usage     *metrics.Usage
	log       hclog.Logger
	book      *requests.Book
	access    *requests.Log
	stdout    io.Writer     // nil: nobody's
	lostLines uint64        // of the access log, as last told; of keepHouse's goroutine
	arrived   atomic.Uint64 // requests
	rate      report.Rate   // of them
	failures  report.Failures
}

// mintID names a request.
func (j *journal) mintID() string {
	var id [16]byte
	copy(id[:], j.id[:idPeer])
	_, _ = rand.Read(id[idPeer:]) // never fails since Go 1.24
	return hex.EncodeToString(id[:])
}

// trailOf is what is remembered of a call; nil, which keeps nothing, for calls
// that are no request's.
func trailOf(call *proxy.Call) *requests.Trail {
	t, _ := call.Trail.(*requests.Trail)
	return t
}

// began is told of every request before its body is read.
func (j *journal) began(call *proxy.Call) {
	t := j.book.Begin(call.ID, call.Start)
	call.Trail = t
	j.arrived.Add(1)
	t.Note(func(r *requests.Record) {
		r.ClientID, r.Trace, r.Client = requests.Word(call.ClientID), call.Trace, call.Key
		if r.Endpoint = call.Endpoint.Path(); r.Endpoint == "" {
			r.Endpoint = "other"
		}
	})
}

// knowCall notes what the body told. It is called before the first decision.
func knowCall(r *requests.Record, call *proxy.Call) {
	r.Tenant = requests.Word(call.Tenant)
	if call.Body != nil {
		r.Model, r.Stream = requests.Word(call.Body.Model), call.Body.Stream
	}
}

// ended is told once what became of a request: it is remembered and, by the
// rule of the access log, logged.
func (j *journal) ended(call *proxy.Call, end proxy.End) {
	t := trailOf(call)
	cfg := &j.rules.config().AccessLog
	notable := false
	t.Note(func(r *requests.Record) {
		knowCall(r, call)
		r.Status, r.Queue, r.Duration = end.Status, end.Waited, end.Duration
		switch {
		case end.Cut:
			r.Error = requests.ErrCut
		case end.Left:
			r.Error = requests.ErrLeft
		case end.Code != "":
			r.Error = end.Code
		}
		model := metrics.Other
		if r.Model != "" && j.directory.modelReplicas(r.Model).known {
			model = r.Model
		}
		now := time.Now()
		j.usage.ObserveRequest(r, model, now)
		j.failures.Add(r, model, now)
		notable = r.Notable(cfg.Slow)
		if cfg.Wants(r) {
			j.access.Add(r)
		}
	})
	j.book.End(t, notable)
}

// turnAway refuses a request that its key or tenant kept out. It has an id and a
// line in the log; it is not remembered, or strangers could push out what is.
func (j *journal) turnAway(w http.ResponseWriter, r *http.Request, code int, name, message string) {
	record := requests.Record{
		ID: j.mintID(), At: time.Now(), Endpoint: openai.EndpointOf(r.URL.Path).Path(), Status: code, Error: name,
		Matched: requests.Unknown, Prompt: requests.Unknown, Cached: requests.Unknown, Output: requests.Unknown,
	}
	w.Header().Set("X-Request-Id", record.ID)
	if j.rules.config().AccessLog.Wants(&record) {
		j.access.Add(&record)
	}
	access.Refuse(w, r, code, name, message)
}

// remember keeps a decision: who was asked, what was known and, with scores, at
// what score. The replica "to" decodes what another one prefills.
func (p *requestPath) remember(s *scratch, call *proxy.Call, cands []policy.Candidate, scores []float64, d *policy.Decision, to *policy.Candidate, t *ticket) {
	t.trail = trailOf(call)
	if !call.Hedge { // the first try reads it by now
		t.blame.of(call)
	}
	if t.trail == nil {
		return
	}
	s.known = s.known[:0]
	for i := range cands[:min(len(cands), requests.MaxCandidates)] {
		q := &cands[i]
		score := unscored
		if scores != nil {
			score = scores[i]
		}
		s.known = append(s.known, requests.Candidate{
			Replica: s.replicas[q.Index].Name(), Score: score, Confirmed: q.Disk, Expected: q.Predicted, Waiting: q.Waiting, Streams: q.Streams,
		})
	}
	view := &s.View
	kept := requests.Decision{
		At: t.begun, Replica: s.replicas[cands[d.Pos].Index].Name(), Policy: t.policyName, Reason: string(d.Reason), Keys: string(t.keys.Scheme), Matched: d.Matched,
		Prompt: t.keys.Tokens, Predicted: d.Predicted, LoadAgeMs: view.AgeMs, IndexAgeMs: view.IndexAgeMs, Peers: view.Peers, Total: len(cands),
		Waited: t.second.waited, From: t.second.from, Source: t.fetch.name(), Fetched: t.fetch.tokens(),
	}
	if to != nil {
		kept.Decode = s.replicas[to.Index].Name()
	}
	t.trail.Decided(&kept, s.known)
	if call.Attempt == 0 {
		t.trail.Note(func(r *requests.Record) { knowCall(r, call) })
	}
}

// rememberTry keeps how a try ended.
func (t *ticket) rememberTry(res *proxy.Result, begin time.Time) {
	if t.trail == nil {
		return
	}
	try := requests.Try{Replica: t.replica.Name(), Status: res.Status, Cause: string(res.Cause), Lost: res.Lost, Took: res.Duration, Before: res.Before}
	if res.ClientGone && !res.Lost { // whatever that did to the connection
		try.Cause = requests.CauseLeft
	}
	if res.Err != nil && !res.Lost && !res.ClientGone {
		try.Detail = fleet.Cause(res.Err)
	}
	t.trail.Tried(try, begin, res.Answered)
	if !res.Answered && (res.TTFT == 0 || !res.Retried) {
		return
	}
	t.trail.Note(func(r *requests.Record) {
		if !t.first.IsZero() && r.TTFT == 0 { // of a stream that was continued the first one counts
			r.TTFT = max(t.first.Sub(r.At), 1)
		}
		if !res.Answered {
			return
		}
		switch {
		case res.Failed:
			r.Error = requests.ErrInStream
		case res.Wrong != openai.WrongNothing:
			r.Error = requests.ErrWrong
		}
		if res.Usage.Known {
			r.Output = res.Before + res.Usage.Completion
			notePrompt(r, &res.Usage)
			r.Prompt -= res.Before
		}
	})
}

func notePrompt(r *requests.Record, u *openai.Usage) {
	r.Prompt, r.Cached = u.Prompt, requests.Unknown
	if u.CachedKnown {
		r.Cached = u.Cached
	}
}

// openAccessLog opens the log's file, whatever the mode: a reload may change it.
func (j *journal) openAccessLog() error {
	std := j.stdout
	if std == nil {
		std = io.Discard
	}
	cfg := &j.rules.config().AccessLog
	var err error
	if j.access, err = requests.NewLog(cfg.Path, cfg.Format, std); err != nil {
		return fmt.Errorf("access_log.path: %w", err)
	}
	return nil
}

// tellDropped warns when lines of the access log were lost since it was last
// asked. Called by one goroutine.
func (j *journal) tellDropped() {
	s := j.access.Stats()
	if n := s.Dropped + s.Failed - j.lostLines; n > 0 {
		j.log.Warn("access log lines dropped: the reader of the log is too slow, or its file cannot be written", "lines", n, "path", j.rules.config().AccessLog.Path)
	}
	j.lostLines = s.Dropped + s.Failed
}

// maxAskedID bounds what people ask for.
const maxAskedID = 256

// Why a request is not known here.
var (
	errNoSuchRequest = errors.New("no request with this id is known at this peer: give the X-Request-Id of an answer, the client's own id, or a trace id")
	errForgotten     = errors.New("this peer routed the request and remembers it no longer: it keeps the last " + strconv.Itoa(requests.KeptNotable) +
		" failed, slow or retried requests and the last " + strconv.Itoa(requests.KeptOrdinary) + " others; the access log may have it")
)

// serveRequest tells what became of a request, or which peer knows.
func (j *journal) serveRequest(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if len(id) > maxAskedID {
		writeError(w, http.StatusBadRequest, errors.New("no id is that long"))
		return
	}
	if told := j.book.Find(id, j.name, time.Now()); told != nil {
		writeJSON(w, http.StatusOK, told)
		return
	}
	peer, err := j.whose(strings.ToLower(id))
	out := map[string]any{"error": map[string]any{"message": err.Error(), "type": "admin_error", "param": nil, "code": http.StatusNotFound}}
	if peer != nil {
		out["peer"] = peer
	}
	writeJSON(w, http.StatusNotFound, out)
}

// elsewhere is the peer that routed a request.
type elsewhere struct {
	Name    string `json:"name"`
	Address string `json:"address"` // of its mesh listener
	State   string `json:"state"`
}

// findRequest and notableRequests are what the page asks.
func (j *journal) findRequest(id string) (*requests.Told, error) {
	if told := j.book.Find(id, j.name, time.Now()); told != nil {
		return told, nil
	}
	_, err := j.whose(strings.ToLower(id))
	return nil, err
}

func (j *journal) notableRequests(n int) []*requests.Told {
	return j.book.Notable(n, j.name, time.Now())
}

// whose says why a request is not found here, and which other peer routed it.
func (j *journal) whose(id string) (peer *elsewhere, why error) {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != 16 {
		return nil, errNoSuchRequest
	}
	if [idPeer]byte(raw) == [idPeer]byte(j.id[:idPeer]) {
		return nil, errForgotten
	}
	for _, m := range j.mesh.members() {
		if [idPeer]byte(raw) == [idPeer]byte(m.ID[:idPeer]) {
			e := &elsewhere{Name: m.Name, Address: m.Addr, State: string(m.State)}
			host, _, _ := net.SplitHostPort(m.Addr)
			return e, errors.New("this request was routed by peer " + m.Name + " on host " + host + " (" + e.State + "): run banyan why " + id +
				" there, with --peer if its admin.listen is not 127.0.0.1:8081")
		}
	}
	return nil, errNoSuchRequest
}

// serveRequests lists the last failed, slow and retried requests of this peer.
func (j *journal) serveRequests(w http.ResponseWriter, r *http.Request) {
	n := 20
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > requests.KeptNotable {
			writeError(w, http.StatusBadRequest, errors.New("n must be a number from 1 to "+strconv.Itoa(requests.KeptNotable)))
			return
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"requests": j.book.Notable(n, j.name, time.Now())})
}
