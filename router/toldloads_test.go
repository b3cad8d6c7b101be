package router

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// TestLoadIsHeardWhereItIsTold has an engine publish LoadStat as SGLang does
// and tell where: it is not asked for its load any more.
func TestLoadIsHeardWhereItIsTold(t *testing.T) {
	pub, err := zmtp.ListenPub("127.0.0.1:0", zmtp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pub.Close() })
	_, port, _ := net.SplitHostPort(pub.Addr().String())
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/server_info":
			fmt.Fprintf(w, `{"page_size":1,"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":1,"load_endpoint_port_base":%s,"load_topic":"load"}}`, port)
		case "/v1/loads":
			asked.Add(1)
			fmt.Fprint(w, `{"loads":[{"num_running_reqs":1,"max_total_num_tokens":100}]}`)
		case "/v1/models":
			fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
		}
	}))
	t.Cleanup(srv.Close)
	p := runningPeer(t, Source{}, func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "a", URL: srv.URL, Engine: "sglang", Model: "m"}}
	})
	id := p.fleet.Get("a").Stream
	seq := uint64(0)
	tell := func(running byte) {
		seq++
		// ["LoadStat", running, 5, 30, 120, 0, 0, 0, 0, 0, 0]
		body := append([]byte{0x9b, 0xa8}, "LoadStat"...)
		pub.Send([]byte("load"), binary.BigEndian.AppendUint64(nil, seq), append(body, running, 5, 30, 120, 0, 0, 0, 0, 0, 0))
	}
	running := func() int {
		s := p.loads.Scrapes()[id]
		if s.Waiting != 5 || s.KVUse != 0.25 || s.Capacity != 120 {
			return -1
		}
		return int(s.Running)
	}
	wait(t, "what it told is known", func() bool { tell(7); return running() == 7 })
	// While it tells, it is not asked: what is known stays what it told.
	wait(t, "no more questions", func() bool {
		before := asked.Load()
		for range 20 {
			tell(9)
		}
		return running() == 9 && asked.Load() == before
	})
}
