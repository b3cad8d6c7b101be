// Package follow decides which process of an engine a batch is of, and what of
// its log is still missing.
//
// It is pure: time, what the mesh knows and everything an engine says are
// arguments of Tracker.Step; sockets belong to the caller. It does not know how
// a batch is encoded, the tree, or the mesh.
//
// # Who an engine is
//
// Each process of an engine numbers its batches from 0, which is slot 1
// (crdt.Slot), and does not report restarts. So it is asked: when a connection stands, the caller asks the engine for its
// start time and gives the answer while that connection still stands
// (Identified). Everything that came over the connection since it stood, and
// everything to come, is of that process: one connection is to one process, and
// an engine takes longer to start than we take to notice that a connection
// ended. Until the answer comes, batches wait.
//
// An epoch is a name for a process: the start time in its low 48 bits, and above
// them how often a clock was found set back (Name). Whoever asks gets the same
// start and gives the same name; a start later than the known one is a higher
// epoch, an earlier one the next generation. So nothing has to be joined, proved
// or taken back: the higher epoch wins whole.
//
//	               Connected
//	any ------------------------> Asking        batches wait for the start time
//	                                |
//	     a name that nobody has     | Identified    the mesh's name, or ours
//	        +-----------------------+-----------------------+
//	        v                       | no start time         v
//	     Seeking                    v                    Catching
//	  replay from 1:     ----- Verifying ----->     replay from the last
//	  the anchor        no   replay from the    yes  known batch
//	        |                last known batch               |
//	        +-----------------------+-----------------------+
//	                                v
//	                            Following   <----> replays of holes
//	                                |
//	  the mesh has a higher epoch for another start, or 16 batches in a row with
//	  numbers heard before: hang up, and ask again over the next connection
//
//	Disconnected: any ---> Fresh.  Third new name in a minute: Quarantined, 60 s.
//
// Where an engine offers no start time, a new connection continues the mesh's
// incarnation only if a batch proves it: the replay, or the live stream while
// batches wait, brings the last batch that the mesh knows, with the same number
// and time. The mesh knows what waits here because another owner reads on, or
// because one that waited too has just named the process: then the name is taken
// over. Two things prove nothing. Silence: the 4 s in which the mesh must learn
// what waits begin with the first batch that waits, however late it comes. And a
// replay that begins above the last known batch: it does not reach back. What is
// not proved is a new incarnation, named by the time of its first batch. That
// costs one replica's facts after all owners' connections broke, if there is no
// replay; answers and traffic bring them back. The opposite error would show
// blocks that are gone. Numbers that go on prove nothing: a process that began
// anew while nobody listened may have passed the last known number.
//
// Batches wait at most 4 s for a replay; for the start time as long as it takes,
// because a replica that does not answer gets no requests. Never more than 4,096
// batches and 32 MiB wait.
//
// Replay has one job: the anchor (the first batch that can be had) and the
// holes. It is lossy, so a hole is given up only after two attempts without
// progress. On one connection a batch whose number is not above the highest heard
// over it is ignored, and one above it is never late, whatever its time says: an
// engine's clock may be set.
//
// # Why it holds
//
// Let a connection stand from t0 to t1 and the answer S be asked for after t0
// and given before t1. The process at the other end at t0 is P. If the answer
// came from another process Q behind the same address, then P had ended before
// (one process serves an address at a time), so the connection had; the caller
// drops answers of connections that ended, and Q's start lay before P's end was
// noticed, which is excluded. So S is P's start.
//
//   - No two names for one process both survive: names are a function of S and
//     the epochs known; two owners that know different epochs may name P apart
//     (one knows a generation more), the higher wins, and the other, whose start
//     is in the low bits, takes it over without a question.
//   - No name for two processes: two processes of one URL start at different
//     milliseconds, and an epoch holds the whole of S.
//   - No phantom: what is delivered under an epoch came over a connection that
//     stood when its start was told, or from a replay asked for meanwhile.
//   - Nothing obtainable is lost: in one epoch slots only join
//     (crdt.Stream), and who met the process later takes the base that knows more.
//
// Two processes alive behind one URL alternate: each new connection finds the
// other start, and the third name in a minute is the quarantine.
//
// # Invariants
//
//	I4 slots of one epoch are of one engine process
//	I5 epochs come from the engine, never from a clock of ours, and a process
//	   that is found later has a higher epoch
//	I6 a slot is delivered at or above the anchor, and once unless asked for
//	I7 one replay is in flight; holds, holes and queues are bounded
//
// TestEveryInterleaving walks all orders of events up to a bound for two owners
// and two processes, with cuts and clock steps.
package follow
