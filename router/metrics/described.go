package metrics

// described are the series that follow a peer's state; their names begin with
// banyan_.
var described = []struct {
	name, help string
	labels     []string
}{
	{"replica_inflight", "This peer's own requests at a replica.", []string{"replica"}},
	{"replica_up", "1 if the replica may get requests.", []string{"replica"}},
	{"replica_events", "1 if this peer hears the events of a replica, 0 if it cannot; absent where it does not follow them.", []string{"replica"}},
	{"replica_draining", "1 if an operator drained the replica: no new requests while another one can take them.", []string{"replica"}},
	{"working_set_tokens", "Tokens of prompts whose last use within three minutes was at a replica. More than its KV cache holds: conversations evict each other.", []string{"replica"}},
	{"tree_facts", "Confirmed facts in the shared tree.", nil},
	{"tree_bytes", "Bytes of the trees.", nil},
	{"predicted_facts", "Predicted blocks.", nil},
	{"quarantined_streams", "Streams ignored because they restart again and again.", nil},
	{"tree_used_bytes", "Bytes that limits.memory bounds: the trees without what was freed, and what lies beside them.", nil},
	{"tree_limit_bytes", "Bytes that they may take; 0 if there is no limit.", nil},
	{"full_streams", "Streams left alone because they did not fit; their replicas' caches are guessed.", nil},
	{"streams_given_up_total", "Streams that did not fit, by what they did not fit into.", []string{"cause"}},
	{"suspect_facts", "Facts older than a lost batch.", nil},
	{"unknown_cache_groups_total", "Stored blocks left out because their cache group is of a kind this version does not know; streams this peer follows.", nil},
	{"event_batches_ignored_total", "Event batches not taken because their number was heard before on the same connection, is below the first one obtainable, or they came while the stream is in quarantine; streams this peer follows.", nil},
	{"divergent_streams", "Streams that differ between peers at equal contexts.", nil},
	{"mesh_view_age_seconds", "Age of what is known of the worst live peer.", nil},
	{"ready", "1 if this peer is ready.", nil},
	{"draining", "1 if this peer is draining.", nil},
	{"snapshots_total", "Snapshots joined, by reason.", []string{"reason"}},
	{"mesh_given_up_total", "Replication work given up at a bound, by cause; peers repair it.", []string{"cause"}},
	{"mesh_frames_rejected_total", "Frames that no correct peer sends, by cause.", []string{"cause"}},
	{"clock_offset_seconds", "Largest clock difference to a live peer, shortest way included.", nil},
	{"config_hash", "Hash of all settings that peers of one mesh have in common; not of what is each peer's own.", nil},
	{"discovery_up", "1 if the source of replicas answers; 0: its last list stands.", []string{"source"}},
	{"advised_prefill_per_decode", "Prefill replicas that go with one decode replica at the traffic of this peer; 0 until measured.", nil},
	{"listener_cert_expiry_timestamp_seconds", "When the certificate of a listener ends; absent if it speaks no TLS.", []string{"listener"}},
	{"queue_depth", "Requests waiting for admission.", nil},
	{"trace_spans_total", "Spans, by what became of them; none while tracing is off.", []string{"outcome"}},
	{"queue_class_depth", "Requests waiting for admission, by priority class.", []string{"class"}},
	{"prompt_keys_total", "Prompts turned into block keys, by model, by the endpoint that told their tokens (or ids, text, none), and why. At most 256 models; the rest are other.", []string{"model", "rung", "reason"}},
	{"prompt_keys_wrong_total", "Prompts whose engine counted other tokens than its endpoint told before, by that endpoint.", []string{"rung"}},
	{"saturation", "How full a pool is, 0 to 1: the mean over its replicas of KV cache in use, of requests against admission.replica_limit, and 1 where the engine has a queue; 1 without a usable replica. The pool is the role of its replicas. For autoscalers.", []string{"model", "pool"}},
	{"access_log_lines_total", "Lines of the access log, by what became of them: written, dropped because who reads the log is too slow, or failed to be written.", []string{"outcome"}},
	{"mesh_refused_peers", "Live peers that this one does not talk to because a setting that all must share differs.", nil},
	{"role_replicas_up", "Replicas that may get requests, by role; absent unless prefill and decode are kept apart.", []string{"role"}},
	{"queue_oldest_seconds", "Wait so far of the request that waits longest.", nil},
}
