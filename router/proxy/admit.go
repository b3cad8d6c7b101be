package proxy

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/banyan-llm/banyan/router/admission"
)

// Admission says who goes first when there is not room for all. Room is
// Limits.Concurrency and what Config.Room says.
type Admission struct {
	Classes     int    // priority classes; 0 goes first [1]
	Default     int    // class of who names none
	Header      string // request header with a class; "": none is read
	TenantQueue int    // most waiting of one tenant; 0: as Limits.Queue
	// Keys are the classes of clients by the name of their key: the best they
	// may name, and theirs if they name none.
	Keys map[string]int
}

// timeoutHeader is how many seconds a client will wait to be let in, decimals
// allowed.
const timeoutHeader = "X-Banyan-Timeout"

// clientKey finds the name of a client's key in a request's context.
type clientKey struct{}

// named is the name of a key, and whether the client is the one it speaks for.
type named struct {
	key  string
	many bool
}

// WithClient tells the Handler whose key a request carries. It becomes Call.Key
// and, unless the key speaks for many clients, Call.Client.
func WithClient(r *http.Request, name string, many bool) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), clientKey{}, named{name, many}))
}

func client(r *http.Request) (key, client string) {
	who, _ := r.Context().Value(clientKey{}).(named)
	if who.many {
		return who.key, ""
	}
	return who.key, who.key
}

// ask is how the call stands in line.
func (x *exchange) ask() {
	call, limits := x.call, x.limits
	x.turn.pool.model = call.Body.Model
	ask := &x.turn.ask
	*ask = admission.Request{Tenant: call.Client, Class: x.class(), Turn: call.Body.Continues(), Cost: x.cost(), Deadline: call.Start.Add(limits.QueueTimeout)}
	if ask.Tenant == "" {
		ask.Tenant = call.Tenant
	}
	if s, err := strconv.ParseFloat(x.r.Header.Get(timeoutHeader), 64); err == nil && s > 0 && s < limits.QueueTimeout.Seconds() {
		ask.Deadline, ask.Early = call.Start.Add(time.Duration(s*float64(time.Second))), true
	}
}

// class is the request's priority.
func (x *exchange) class() int {
	cfg := &x.cfg.Admission
	best, keyed := cfg.Keys[x.call.Client]
	class := cfg.Default
	if keyed {
		class = best
	}
	if cfg.Header != "" {
		if n, err := strconv.Atoi(x.r.Header.Get(cfg.Header)); err == nil {
			class = max(n, best) // best is 0 for keys without one
		}
	}
	return min(max(class, 0), cfg.Classes-1)
}

// rank is where the request stands at an engine that reads priorities, the lowest
// first: by class, and in a class those that an agent waits for in the middle of
// its work, or a client in the middle of an answer, before a new conversation.
func (x *exchange) rank(t *try) int {
	rank := 2 * x.class()
	if !t.resumes && !x.call.Body.Continues() {
		rank++
	}
	return rank
}

// What a request costs before it is known, in tokens.
const (
	bytesPerToken = 4
	usualOutput   = 256
	outputWeight  = 2 // a generated token against one of the prompt
	maxCost       = 1 << 20
)

// cost estimates a request's work, for shares between tenants: a body's size
// and what may be generated.
func (x *exchange) cost() float64 {
	output := usualOutput
	if n := x.call.Body.MaxTokens; n > 0 {
		output = n
	}
	return math.Min(float64(x.size)/bytesPerToken+outputWeight*float64(output), maxCost)
}

// admit takes a place for the call, after a wait if need be.
func (x *exchange) admit() error {
	if x.placed = x.gate.pass(); x.placed {
		return nil
	}
	if x.cfg.Serves != nil {
		if err := x.cfg.Serves(x.call.Body.Model); err != nil {
			return err
		}
	}
	x.ask()
	return x.stand(x.gate.enter)
}

// stand waits and counts the wait.
func (x *exchange) stand(wait func(context.Context, *turn) error) error {
	begin := time.Now()
	_, span := x.begin(x.r.Context(), "queue")
	defer span.End()
	err := wait(x.r.Context(), &x.turn)
	x.placed = err == nil
	if x.turn.how == "" { // a place was free
		return err
	}
	waited := time.Since(begin)
	x.waited += waited
	if x.cfg.Waited != nil {
		x.cfg.Waited(x.turn.how, waited)
	}
	return err
}

// pick asks for a target, and stands in line while there is room at none.
func (x *exchange) pick() (*Target, error) {
	for {
		x.call.Behind = x.gate.behind(x.call.Body.Model)
		ctx, span := x.begin(x.r.Context(), "pick")
		target, err := x.cfg.Pick(ctx, x.call)
		span.End()
		x.gate.settle(&x.turn)
		begins := errors.Is(err, ErrCrowded)
		if !begins && !errors.Is(err, ErrSaturated) {
			return target, err
		}
		if x.turn.ask.Deadline.IsZero() {
			x.ask()
		}
		x.turn.pool.begins = begins
		if err := x.stand(x.gate.again); err != nil {
			return nil, err
		}
		x.call.LetIn = x.call.LetIn || begins
	}
}

// leavePlace gives the place back, if one is held.
func (x *exchange) leavePlace() {
	if x.placed {
		x.gate.leave()
	}
}

// refuseShed answers a request that was not let in.
func (x *exchange) refuseShed(s *shed) {
	seconds := min(max(int(math.Ceil(s.after.Seconds())), retryAfterSeconds), maxRetryAfterSeconds)
	x.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	x.refuse(refusal(http.StatusTooManyRequests, "overloaded", s.Error()))
}

// maxRetryAfterSeconds bounds what clients are told: pace changes.
const maxRetryAfterSeconds = 60
