package simulation

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is one thing that goes wrong, at a virtual time after the start.
type Fault struct {
	At     time.Duration
	For    time.Duration // 0: to the end of the faulty time
	Verb   string        // one of FaultVerbs
	Peer   string        // a, b, … z, p26, …; the target where the verb wants a peer
	Other  string        // the second one of cut, sever, break and suspect; a replica may be cut off too
	OneWay bool          // cut a>b
	Target string        // r0, r1, … where the verb wants a replica
	Factor float64       // slow: times; drop-events and repeat-events: share of batches; clears: batches
	Habit  string        // become: one of habitNames
	Skew   time.Duration // skew: clock minus true time; clock: what it is set by
}

// FaultVerbs is the closed list of what a faults file may say:
//
//	cut a b            nothing passes between two peers, or a peer and a replica
//	cut a>b            nothing passes from a to b
//	sever a b          as cut a b, but for ever, if others link the two (sever a>b too)
//	break a b          their connections end once; what was on its way is lost
//	slow a 10x         delays from and to a
//	stall a            a stops and does nothing
//	kill a             a is gone at once; with for= it comes back empty
//	drain a            a serves what it has, then leaves
//	join               one more peer starts, cold
//	suspect a>b        a takes b for dead
//	skew a +3s         a's clock
//	restart r0         an engine loses everything; with for= it is down so long
//	clock r0 -30s      an engine's clock is set, by so much, for good
//	drop-events r0 .1  share of its batches each listener misses, replays too
//	repeat-events r0 .1 share that comes twice, late
//	lose r0            an owner declares lost what is missing, asking nobody
//	choke a>b          b reads what a sends slowly; at the end what waits may be torn off
//	half r0            one half of the mesh hears it, the other one neither it nor them
//	clears r0 1000     so many batches in a row that each clear a thousand times
//	become r0 pages    it restarts as an engine with pages of several grid blocks,
//	                   salts, same-handles in all processes, or a disk
//	twice r0 r1        r1 is another URL of r0's process from now on
//	depart r0          it leaves for good; peers stop listing it within 6 s of each other
//	rotate             the mesh gets a new key, in three steps that each peer takes at
//	                   a time of its own
//	relist r0          discovery lists it more than once, by names, spellings and
//	                   sources that differ by peer
func FaultVerbs() []string {
	return []string{
		"cut", "sever", "break", "slow", "stall", "kill", "drain", "join", "suspect", "skew",
		"restart", "clock", "drop-events", "repeat-events", "lose",
		"choke", "half", "clears", "become", "twice", "depart", "rotate", "relist",
	}
}

// Limits of a faults file.
const (
	maxFaults    = 10_000
	maxFaultAt   = 24 * time.Hour
	maxSlow      = 1000.0
	maxFaultSkew = time.Hour
	maxClears    = 100_000
)

// ParseFaults reads one fault a line: at=12s for=10s cut a b. Empty lines and
// what follows # do not count. All faults of the text are reported at once,
// with their line numbers.
func ParseFaults(r io.Reader) ([]Fault, error) {
	var out []Fault
	var errs []error
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		f, err := parseFault(words)
		if err == nil && len(out) == maxFaults {
			err = fmt.Errorf("more than %d faults", maxFaults)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		out = append(out, f)
	}
	if err := lines.Err(); err != nil {
		errs = append(errs, fmt.Errorf("read faults: %w", err))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.SortStableFunc(out, func(a, b Fault) int { return int(a.At - b.At) })
	return out, nil
}

// parseFault reads one line's words.
func parseFault(words []string) (f Fault, err error) {
	for len(words) > 0 {
		key, value, ok := strings.Cut(words[0], "=")
		if !ok {
			break
		}
		var at *time.Duration
		switch key {
		case "at":
			at = &f.At
		case "for":
			at = &f.For
		default:
			return f, fmt.Errorf("unknown key %q: want at= or for=", key)
		}
		if *at, err = time.ParseDuration(value); err != nil || *at < 0 || *at > maxFaultAt {
			return f, fmt.Errorf("%s: want a time such as 1.5s, at most %v", words[0], maxFaultAt)
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return f, errors.New("no fault named")
	}
	f.Verb = words[0]
	return f, f.args(words[1:])
}

// args reads what follows the verb.
func (f *Fault) args(args []string) error {
	switch f.Verb {
	case "cut", "sever", "break", "suspect", "choke":
		return f.pair(args)
	case "become", "twice":
		return f.ofReplica(args)
	case "join", "rotate":
		return count(args, 0, f.Verb)
	case "stall", "kill", "drain":
		if err := count(args, 1, f.Verb+" PEER"); err != nil {
			return err
		}
		f.Peer = args[0]
		return wantPeer(f.Peer)
	case "restart", "lose", "half", "depart", "relist":
		if err := count(args, 1, f.Verb+" REPLICA"); err != nil {
			return err
		}
		f.Target = args[0]
		return wantReplica(f.Target)
	case "slow", "skew":
		return f.measuredPeer(args)
	case "clock":
		if err := count(args, 2, f.Verb+" REPLICA AMOUNT"); err != nil {
			return err
		}
		var err error
		if f.Skew, err = time.ParseDuration(args[1]); err != nil || f.Skew.Abs() > maxFaultSkew {
			return fmt.Errorf("%q: want a time such as -30s, at most %v", args[1], maxFaultSkew)
		}
		f.Target = args[0]
		return wantReplica(f.Target)
	case "drop-events", "repeat-events":
		if err := count(args, 2, f.Verb+" REPLICA SHARE"); err != nil {
			return err
		}
		f.Target = args[0]
		share, err := strconv.ParseFloat(args[1], 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return fmt.Errorf("%q: want a share between 0 and 1", args[1])
		}
		f.Factor = share
		return wantReplica(f.Target)
	case "clears":
		if err := count(args, 2, f.Verb+" REPLICA BATCHES"); err != nil {
			return err
		}
		f.Target = args[0]
		n, err := strconv.ParseUint(args[1], 10, 32)
		if err != nil || n > maxClears {
			return fmt.Errorf("%q: want a number of batches, at most %d", args[1], maxClears)
		}
		f.Factor = float64(n)
		return wantReplica(f.Target)
	}
	return fmt.Errorf("unknown fault %q: want one of %s", f.Verb, strings.Join(FaultVerbs(), ", "))
}

// ofReplica reads what a replica becomes, or whose process it is.
func (f *Fault) ofReplica(args []string) error {
	if err := count(args, 2, f.Verb+" REPLICA HABIT, or twice REPLICA REPLICA"); err != nil {
		return err
	}
	f.Target = args[0]
	if err := wantReplica(f.Target); err != nil {
		return err
	}
	if f.Verb == "become" {
		if f.Habit = args[1]; !slices.Contains(habitNames, f.Habit) {
			return fmt.Errorf("%q: want one of %s", f.Habit, strings.Join(habitNames, ", "))
		}
		return nil
	}
	if f.Other = args[1]; f.Other == f.Target {
		return fmt.Errorf("twice %s with itself", f.Other)
	}
	return wantReplica(f.Other)
}

func (f *Fault) measuredPeer(args []string) error {
	if err := count(args, 2, f.Verb+" PEER AMOUNT"); err != nil {
		return err
	}
	f.Peer = args[0]
	var err error
	if f.Verb == "skew" {
		if f.Skew, err = time.ParseDuration(args[1]); err != nil || f.Skew.Abs() > maxFaultSkew {
			return fmt.Errorf("%q: want a time such as +3s, at most %v", args[1], maxFaultSkew)
		}
		return wantPeer(f.Peer)
	}
	times, found := strings.CutSuffix(args[1], "x")
	if f.Factor, err = strconv.ParseFloat(times, 64); err != nil || !found || !(f.Factor >= 1 && f.Factor <= maxSlow) {
		return fmt.Errorf("%q: want a factor such as 10x, at most %vx", args[1], maxSlow)
	}
	return wantPeer(f.Peer)
}

// pair reads "a b", "a>b", or "a > b".
func (f *Fault) pair(args []string) error {
	text := strings.Join(args, " ")
	from, to, oneWay := strings.Cut(text, ">")
	if !oneWay {
		from, to, _ = strings.Cut(text, " ")
	}
	f.Peer, f.Other, f.OneWay = strings.TrimSpace(from), strings.TrimSpace(to), oneWay
	if err := wantPeer(f.Peer); err != nil {
		return err
	}
	if f.Verb == "cut" && wantReplica(f.Other) == nil {
		return nil
	}
	if err := wantPeer(f.Other); err != nil {
		return err
	}
	switch {
	case f.Peer == f.Other:
		return fmt.Errorf("%s %s with itself", f.Verb, f.Peer)
	case f.Verb == "break" && oneWay:
		return errors.New("a connection breaks both ways")
	case (f.Verb == "suspect" || f.Verb == "choke") && !oneWay:
		return fmt.Errorf("want %s a>b", f.Verb)
	}
	return nil
}

func count(args []string, n int, form string) error {
	if len(args) != n {
		return fmt.Errorf("want %s", form)
	}
	return nil
}

func wantPeer(name string) error {
	if peerSlot(name) < 0 {
		return fmt.Errorf("%q is no peer: want a to z, or p26 and up", name)
	}
	return nil
}

func wantReplica(name string) error {
	if replicaSlot(name) < 0 {
		return fmt.Errorf("%q is no replica: want r0, r1, …", name)
	}
	return nil
}

// peerName is a for the first peer.
func peerName(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return "p" + strconv.Itoa(i)
}

// peerSlot is the inverse of peerName; -1 for anything else.
func peerSlot(name string) int {
	if len(name) == 1 && name[0] >= 'a' && name[0] <= 'z' {
		return int(name[0] - 'a')
	}
	if n := numbered(name, "p"); n >= 26 {
		return n
	}
	return -1
}

func replicaSlot(name string) int { return numbered(name, "r") }

// numbered reads the number behind a prefix; -1 if there is none.
func numbered(name, prefix string) int {
	digits, ok := strings.CutPrefix(name, prefix)
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || prefix+strconv.FormatUint(n, 10) != name {
		return -1
	}
	return int(n)
}

// String is the fault's line in a faults file.
func (f Fault) String() string {
	s := "at=" + f.At.String()
	if f.For > 0 {
		s += " for=" + f.For.String()
	}
	s += " " + f.Verb
	switch f.Verb {
	case "cut", "sever", "break", "suspect", "choke":
		if f.OneWay {
			return s + " " + f.Peer + ">" + f.Other
		}
		return s + " " + f.Peer + " " + f.Other
	case "slow":
		return s + " " + f.Peer + " " + strconv.FormatFloat(f.Factor, 'g', -1, 64) + "x"
	case "skew", "clock":
		sign := ""
		if f.Skew >= 0 {
			sign = "+"
		}
		return s + " " + f.Peer + f.Target + " " + sign + f.Skew.String()
	case "drop-events", "repeat-events":
		return s + " " + f.Target + " " + strconv.FormatFloat(f.Factor, 'g', -1, 64)
	case "join", "rotate":
		return s
	case "clears":
		return s + " " + f.Target + " " + strconv.Itoa(int(f.Factor))
	case "become", "twice":
		return s + " " + f.Target + " " + f.Habit + f.Other
	}
	return s + " " + f.Peer + f.Target
}

// FaultsText is the faults file of a schedule.
func FaultsText(faults []Fault) string {
	var b strings.Builder
	for _, f := range faults {
		b.WriteString(f.String())
		b.WriteByte('\n')
	}
	return b.String()
}
