package metrics

// described are the series that follow a peer's state; their names begin with
// banyan_.
var described = []struct {
	name, help string
	labels     []string
}{
	{"replica_inflight", "This peer's own requests in flight at a replica.", []string{"replica"}},
	{"replica_ejected", "1 while this peer leaves the replica out because its answers fail where others answer.", []string{"replica"}},
	{"replica_up", "1 if the replica is healthy and usable (also while it is drained).", []string{"replica"}},
	{"replica_events", "1 if this peer receives the KV events of a replica, 0 if it cannot; absent on peers that do not subscribe to this replica.", []string{"replica"}},
	{"replica_draining", "1 if an operator drained the replica: no new requests while another one can take them.", []string{"replica"}},
	{"working_set_tokens", "Prompt tokens used at a replica in the last three minutes. If this exceeds its KV cache, conversations evict each other.", []string{"replica"}},
	{"tree_facts", "Cached blocks in the prefix index that engine events confirm, of all replicas.", nil},
	{"tree_bytes", "Memory allocated for the prefix index, in bytes.", nil},
	{"predicted_facts", "Cached blocks in the prefix index that are predicted from traffic, of all replicas.", nil},
	{"quarantined_streams", "Replicas whose KV events are ignored for a minute because their engine seems to restart again and again: usually two engines behind one replica URL.", nil},
	{"tree_used_bytes", "Memory in use that counts against limits.memory, in bytes (see banyan_tree_limit_bytes).", nil},
	{"tree_limit_bytes", "limits.memory in bytes, the bound of banyan_tree_used_bytes; 0 = no limit.", nil},
	{"full_streams", "Replicas whose KV events are ignored because their blocks exceed limits.stream_facts or limits.memory; their caches are predicted.", nil},
	{"streams_given_up_total", "Times that a replica's KV events were dropped, by the limit that was exceeded: facts (limits.stream_facts) or memory (limits.memory).", []string{"cause"}},
	{"suspect_facts", "Cached blocks that may be gone, because event batches were lost after them.", nil},
	{"unknown_cache_groups_total", "Blocks ignored because this version does not know the kind of their cache group (upgrade Banyan). Counts only replicas that this peer subscribes to.", nil},
	{"event_batches_ignored_total", "Event batches ignored: their number came before on the same connection, is too old to be replayed, or the replica is in quarantine. Counts only replicas that this peer subscribes to.", nil},
	{"divergent_streams", "Event streams of which this peer and another one hold different cached blocks although both saw the same events. Must be 0; else report a bug.", nil},
	{"mesh_view_age_seconds", "Age of the load data of the live peer that was heard from longest ago.", nil},
	{"ready", "1 if this peer is ready.", nil},
	{"draining", "1 if this peer is shutting down.", nil},
	{"snapshots_total", "Full copies of a replica's event state taken from another peer, by reason: join (this peer started), gap (a message was lost), behind (this peer is slow or was cut off), divergence (a bug).", []string{"reason"}},
	{"mesh_given_up_total", "Replication work skipped because a bound was reached; peers repair it later. Causes: peers and streams (too many), unwanted (replica not listed), full (limits.memory or limits.stream_facts), message (too long), owed (too much to catch up), want and ask (too many requests for repairs), stage, piece and join (a full copy too large, stuck or not usable), connection (silent), prediction (not sent in time).", []string{"cause"}},
	{"mesh_frames_rejected_total", "Malformed messages from peers: envelope (unreadable), number (out of turn), order (before the greeting), payload (out of bounds). A bug, or a foreign sender.", []string{"cause"}},
	{"clock_offset_seconds", "Largest clock difference to a live peer; the shortest network delay seen is part of it.", nil},
	{"config_hash", "Hash of the settings that all peers share; equal on all peers while their configurations agree.", nil},
	{"discovery_up", "1 if discovery works; 0 if it fails (its last list of replicas stays in use).", []string{"source"}},
	{"advised_prefill_per_decode", "Recommended number of prefill replicas per decode replica, from the traffic of this peer; 0 = not measured yet.", nil},
	{"listener_cert_expiry_timestamp_seconds", "Time when the certificate of a listener ends; absent without TLS.", []string{"listener"}},
	{"queue_depth", "Requests in the queue.", nil},
	{"trace_spans_total", "Trace spans, by outcome: exported, failed (the collector did not take them), dropped (the queue was full). Absent while tracing is off.", []string{"outcome"}},
	{"queue_class_depth", "Requests in the queue, by priority class.", []string{"class"}},
	{"prompt_keys_total", "Prompts turned into block hashes, by model, rung (source of the token ids: the engine's render or tokenize endpoint, ids of the client; or text, none) and reason (as in banyan_tokenized_total). At most 256 models; the rest are other.", []string{"model", "rung", "reason"}},
	{"prompt_keys_wrong_total", "Prompts for which the engine then counted a different number of tokens than its render or tokenize endpoint had returned, by endpoint.", []string{"rung"}},
	{"saturation", "Load of a pool (the replicas of one role that serve a model), 0 to 1, for autoscalers. Per replica the largest of: KV cache in use, requests in flight / admission.replica_limit, and 1 if its engine queues; then the mean of the usable replicas. 1 if no replica is usable.", []string{"model", "pool"}},
	{"access_log_lines_total", "Lines of the access log, by outcome: written, dropped (the reader of the log is too slow), failed (the file cannot be written).", []string{"outcome"}},
	{"mesh_refused_peers", "Live peers that this one does not talk to because a setting that all must share differs.", nil},
	{"role_replicas_up", "Replicas that may get requests, by role; absent unless prefill and decode are kept apart.", []string{"role"}},
	{"queue_oldest_seconds", "Age of the oldest request in the queue.", nil},
}
