package report

import (
	"fmt"
	"strings"

	"github.com/banyan-llm/banyan/router/console"
)

// Fleet is what is known of how replicas are found and listed.
type Fleet struct {
	Sources []Source
	Listed  []Listed
	Strange uint64 // messages to ingest.listen, of late, that name no replica
	Topic   string // of the last one
	Mode    string // routing.disaggregate.mode
	Apart   bool   // prefill and decode are kept apart
}

// Source is where replicas are found.
type Source struct {
	Name    string
	Trouble string // why what it last told may be old; empty if it is not
}

// Listed is one replica.
type Listed struct {
	Name, URL   string
	Role        string
	Serves      bool // a replica proper: no store, no render server
	Rank, Ranks int  // as configured
	Told        int  // ranks that the engine runs, as it says; 0: it does not
	OneOfMany   bool // one rank of several behind its URL
	RanksCut    bool // the engine tells of more ranks than were taken
	EventRank   int  // the rank whose events are heard; -1: not known
	Warning     string
	Feed        Feed
}

// problems says what an operator should know of how replicas are found and
// listed.
func (f *Fleet) problems() (out []console.Problem) {
	for _, s := range f.Sources {
		if s.Trouble != "" {
			out = append(out, console.Problem{
				Text: fmt.Sprintf("Discovery by %s fails: %s", s.Name, s.Trouble), Help: "Replicas stay as it last listed them",
			})
		}
	}
	for i := range f.Listed {
		r := &f.Listed[i]
		if r.EventRank >= 0 && r.EventRank != r.Rank && r.OneOfMany {
			out = append(out, console.Problem{
				Text: fmt.Sprintf("The events that %s listens to are of data-parallel rank %d, not %d", r.Name, r.EventRank, r.Rank),
				Help: "Check its events port: the engine adds the rank to the first rank's port",
			})
		}
		if r.Warning != "" {
			out = append(out, console.Problem{Text: r.Name + ": " + r.Warning, Help: "Its cache is known in part only"})
		}
	}
	out = append(out, f.eventProblems()...)
	out = append(out, f.rankProblems()...)
	if f.Strange > 0 {
		out = append(out, console.Problem{
			Text: fmt.Sprintf("Events come to ingest.listen that name no replica: %d messages, the last with the topic %q", f.Strange, f.Topic),
			Help: "Set the engine's topic to kv@HOST:PORT@MODEL, HOST:PORT as in the replica's url here",
		})
	}
	return append(out, f.RoleProblems()...)
}

// rankProblems says, once a URL, where other ranks are listed than there are.
func (f *Fleet) rankProblems() (out []console.Problem) {
	listed := map[string]int{}
	for i := range f.Listed {
		listed[f.Listed[i].URL]++
	}
	for i := range f.Listed {
		r := &f.Listed[i]
		n := listed[r.URL]
		switch {
		case r.RanksCut && r.Told > n:
			out = append(out, console.Problem{
				Text: fmt.Sprintf("%s says that it runs %d data-parallel ranks: %d of them are used", r.URL, r.Told, n),
				Help: "If it really runs so many, set ranks: to their number; else look who answers there. An engine's word alone makes at most 128 replicas of one URL, and 1,024 in all",
			})
		case r.Told > n:
			out = append(out, console.Problem{
				Text: fmt.Sprintf("%s runs %d data-parallel ranks and %d of them are listed", r.URL, r.Told, n),
				Help: "List it once without rank and ranks: every rank then becomes a replica; now the others' caches are not seen",
			})
		case r.Ranks > 1 && r.Told > 0 && r.Told < n:
			out = append(out, console.Problem{
				Text: fmt.Sprintf("%s runs %d data-parallel ranks, not %d", r.URL, r.Told, n), Help: "Correct ranks in the configuration, or leave it out: the engine refuses requests for ranks it has not",
			})
		default:
			continue
		}
		listed[r.URL] = r.Told
	}
	return out
}

// RoleProblems says which roles are missing where prefill and decode are kept
// apart, and which are of no use where they are not.
func (f *Fleet) RoleProblems() []console.Problem {
	has := map[string][]string{}
	for i := range f.Listed {
		if r := &f.Listed[i]; r.Serves {
			has[r.Role] = append(has[r.Role], r.Name)
		}
	}
	var missing []string
	for _, role := range []string{"prefill", "decode"} {
		if len(has[role]) == 0 {
			missing = append(missing, "role: "+role)
		}
	}
	switch {
	case f.Apart && len(missing) > 0 && len(f.Listed) > 0:
		return []console.Problem{{
			Text: fmt.Sprintf("routing.disaggregate.mode is %s and no replica has %s", f.Mode, strings.Join(missing, " nor ")),
			Help: "Every request is served whole: give replicas these roles, or set the mode to off",
		}}
	case !f.Apart && len(has["decode"]) > 0:
		return []console.Problem{{
			Text: "no requests go to replicas of role: decode while routing.disaggregate.mode is off: " + listed(has["decode"]),
			Help: "Set the mode to threshold or conditional, or leave the role out",
		}}
	}
	return nil
}
