package gossip

// Times of the protocol, ms.
const (
	heartbeatMs   = 200    // a load frame at least this often
	urgentMs      = 1      // dispatches are coalesced this long
	dirtyMs       = 10     // other load changes are
	pushMs        = 4      // own slots that come faster than this go together
	predictMs     = 10     // predictions are
	ackMs         = 50     // an ack of bulk frames at most this late; sooner for many bytes
	fastAckMs     = 1_000  // of fast frames
	fillMs        = 50     // the second owner waits this long for the first
	digestMs      = 1_000  // digest round: between this and twice this
	wantMs        = 100    // slots a digest told of are given this long to come by themselves
	wantTimeoutMs = 5_000  // an unanswered want is asked elsewhere
	retryMs       = 200    // first wait after a want that brought nothing
	maxRetryMs    = 10_000 // the last
	missingMs     = 5_000  // slots nobody has are asked for again
	brokenMs      = 30_000 // a stream whose snapshot could not be joined
	assemblyMs    = 10_000 // a snapshot that does not move is given up
	dialMs        = 500    // second dial; doubles
	maxDialMs     = 4_000  // then doubled by jitter
	dialLaterMs   = 3_000  // the larger id dials this much later
	dialEachMs    = 100    // or this for each peer: so long the smaller one may take to come to it
	dialSlowMs    = 3_000  // a dial counts as under way this long
	settleMs      = 2_000  // of two connections, one this old yields
	helloMs       = 5_000  // a connection without hello is closed
	silenceMs     = 10_000 // so is one to a peer that says nothing
	heardMs       = 3_000  // who was heard this lately is not dead
	stuckMs       = 15_000 // and one on which nothing is acknowledged
	refusedMs     = 30_000 // a refused peer is not dialed this long
	goneMs        = 600_000
	behindMs      = 5_000  // a peer this far behind is not ready
	minuteMs      = 60_000 // three snapshots of a stream in this time: not ready
	unreachMs     = 5_000  // a live peer out of reach is waited for this long
	failedMs      = 30_000 // one that failed is, before slots that nobody has are called missing
	joinReachMs   = 1_500  // so is a member by one that joins and heard of others
)
