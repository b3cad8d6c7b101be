package workload

import "math"

// Steady returns the workload as it looks long after its start: at any moment,
// the first one included, as many sessions are under way, each at a turn of its
// own with the history that led there. stretch is the factor on arrivals with
// which it will be sent (think times stay), perToken what a generated token is
// taken to need, in seconds.
//
// The workload is laid round a circle of its own length: what of a session lies
// beyond the end is sent from the start on, by somebody else who has said the
// like. So the requests stay as many and come as fast. Without sessions it is
// the workload itself. O(requests and segments).
func (w *Workload) Steady(stretch, perToken float64) *Workload {
	if len(w.Requests) == 0 || !(stretch > 0) || len(w.Stages) > 0 {
		return w
	}
	first := w.Requests[0].At
	length := (w.Requests[len(w.Requests)-1].At - first) * stretch
	if !(length > 0) || math.IsInf(length, 0) {
		return w
	}
	length *= 1 + 1/float64(len(w.Requests)) // from the last one a gap to the first one
	names := rounds{parts: map[part]int{}}
	for i := range w.Requests {
		names.sessions = max(names.sessions, w.Requests[i].Session+1)
	}
	out := *w
	out.Requests = make([]Request, len(w.Requests))
	due, round := make([]float64, len(w.Requests)), make([]int, len(w.Requests))
	for i := range w.Requests {
		r := w.Requests[i]
		due[i] = (r.At - first) * stretch
		if r.After >= 0 {
			before := &w.Requests[r.After]
			due[i] = due[r.After] + perToken*float64(before.Output) + r.Think
		}
		round[i] = int(due[i] / length)
		switch {
		case r.After < 0:
		case round[i] == round[r.After]:
			r.At = out.Requests[r.After].At
		default:
			r.After, r.Think = -1, 0
			r.At = first + math.Mod(due[i], length)/stretch
		}
		if round[i] > 0 {
			names.rename(&r, round[i])
		}
		out.Requests[i] = r
	}
	arrange(out.Requests)
	return &out
}

// rounds gives the later rounds of a session names of their own.
type rounds struct {
	parts    map[part]int // their numbers as sessions
	sessions int          // numbers used
}

// part is what of a session lies in one round.
type part struct{ session, round int }

// rename makes r a request of another session with other words. System
// prompts, which sessions share, stay.
func (n *rounds) rename(r *Request, round int) {
	prompt := make([]Segment, len(r.Prompt))
	for i, s := range r.Prompt {
		if s.Role != System {
			s.ID = mix(s.ID, uint64(round))
		}
		prompt[i] = s
	}
	r.Session, r.Prompt, r.Reply = n.number(r.Session, round), prompt, mix(r.Reply, uint64(round))
	if r.Lineage > 0 {
		r.Lineage = 1 + n.number(r.Lineage-1, round)
	}
}

// number is that of a session's part in a round.
func (n *rounds) number(session, round int) int {
	of := part{session, round}
	number, known := n.parts[of]
	if !known {
		number = n.sessions
		n.sessions++
		n.parts[of] = number
	}
	return number
}
