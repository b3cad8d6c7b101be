package mesh

import (
	"io"
	"log"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// serfLog passes the lines of serf and memberlist on to hclog by their level.
// What strangers can make them say is said once per kind in ten minutes; the
// rest of it is a debug line. Lines about keys are counted as refusals.
type serfLog struct {
	out   io.Writer
	debug hclog.Logger
	once  *once
	key   func()
	udp   func() // a probe had an answer over TCP only
}

func newSerfLog(logger hclog.Logger, o *once, key, udp func()) *log.Logger {
	w := &serfLog{
		out:   logger.StandardWriter(&hclog.StandardLoggerOptions{InferLevels: true}),
		debug: logger, once: o, key: key, udp: udp,
	}
	return log.New(w, "", 0)
}

// retried are lines about a peer that is not reached. That is tried again, and
// a peer that has failed is named by Mesh.memberEvent.
var retried = []string{"Push/Pull with", "Failed to send", "failed to send", "allback", "Error forwarding message"}

// Write implements io.Writer; one call is one line.
func (w *serfLog) Write(line []byte) (int, error) {
	s, n := string(line), len(line)
	if strings.Contains(s, "ecrypt") && strings.HasPrefix(s, "[ERR]") {
		w.key()
		if w.once.first("another key") {
			_, from, _ := strings.Cut(strings.TrimSpace(s), " from=")
			w.debug.Warn("peer refused: its gossip is encrypted with a key that this peer does not have: compare mesh.key and mesh.keyring", "cause", string(causeKey), "from", from)
		}
	}
	if lostUDP(s) {
		w.udp()
	}
	for _, kind := range retried {
		if rest, ok := strings.CutPrefix(s, "[ERR]"); ok && strings.Contains(s, kind) {
			s = "[WARN]" + rest
			line = []byte(s)
		}
	}
	// Who is alone has nobody to say goodbye to (Mesh.Leave): that is no fault.
	quiet := strings.Contains(s, "Shutdown without a Leave") || strings.Contains(s, "serf: attempting reconnect to")
	if quiet || (strings.HasPrefix(s, "[ERR]") || strings.HasPrefix(s, "[WARN]")) && !w.once.first(kindOfLine(s)) {
		w.debug.Debug(strings.TrimSpace(s))
		return n, nil
	}
	if _, err := w.out.Write(line); err != nil {
		return 0, err
	}
	return n, nil
}

// kindOfLine is a line without what varies: addresses, numbers, quoted text.
func kindOfLine(s string) string {
	if i := strings.Index(s, " from="); i >= 0 {
		s = s[:i]
	}
	var b strings.Builder
	quoted := false
	for _, r := range s {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted, r >= '0' && r <= '9':
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
