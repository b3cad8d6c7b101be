package crdt

// Load is one peer's own requests at one replica: absolute values, written by
// that peer alone, newest version wins.
type Load struct {
	Version    uint64
	Waiting    int32   // requests without a first token
	Prefill    float64 // seconds of prefill those requests hold
	Tokens     int64   // uncached tokens those requests hold
	Streams    int32   // streams decoding
	Blocks     int64   // grid blocks those streams hold
	FirstToken int64   // time of the last first token seen, ms since 1970 on the mesh clock; 0 none
}

// Scrape is what a replica's owners last read from the engine itself.
type Scrape struct {
	Version  uint64 // ms; newest wins
	Running  int32
	Waiting  int32
	KVUse    float32 // 0..1
	Capacity int64   // KV tokens; 0 unknown
}

// Vitals is what a peer says of itself for the others' status pages.
type Vitals struct {
	Version  uint64 // newest wins
	Name     string
	HTTP     string // address of the public listener
	Build    string
	Rate     float64 // requests a second
	P99      float64 // TTFT seconds
	Facts    uint64
	Memory   uint64 // bytes
	Ready    bool
	Draining bool
	Ages     map[PeerID]int64 // view age of every other peer, ms
}

// Intent is an operator's word on one replica: last writer by (Time, Peer).
type Intent struct {
	Time   int64 // hybrid time, ms
	Peer   PeerID
	Drain  bool
	Weight float64 // 1 is normal
}

// LoadEntry is one register with the replica it is about.
type LoadEntry struct {
	Replica StreamID
	Load    Load
}

// PeerLoads is all of one peer's registers.
type PeerLoads struct {
	Peer  PeerID
	Loads []LoadEntry
}

// Newer reports whether s replaces o: the join of scrapes.
func (s *Scrape) Newer(o *Scrape) bool { return s.Version > o.Version }

// Newer reports whether v replaces o: the join of vitals.
func (v *Vitals) Newer(o *Vitals) bool { return v.Version > o.Version }

// Newer reports whether i replaces o: the last writer by (time, peer).
func (i *Intent) Newer(o *Intent) bool {
	return i.Time > o.Time || i.Time == o.Time && o.Peer.Less(i.Peer)
}
