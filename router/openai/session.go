package openai

// readSession finds which conversation a body belongs to: the fields that name
// one, the most deliberate first. session_id is vLLM's and SGLang's own;
// conversation and prompt_cache_key are OpenAI's; metadata.user_id is what
// Anthropic's clients send, Claude Code a new one each session; user comes last,
// since many name a person there, who may have several conversations.
func (r *Request) readSession() {
	for _, find := range []func() string{
		func() string { return r.text("session_id") },
		func() string { return r.inner("vllm_xargs", "session_id") },
		func() string { return r.text("conversation") },
		func() string { return r.inner("conversation", "id") },
		func() string { return r.text("prompt_cache_key") },
		func() string { return r.anthropicUser() },
		func() string { return r.User },
	} {
		if r.Session = find(); r.Session != "" {
			return
		}
	}
}

func (r *Request) text(name string) string {
	if value := r.body.get(name); value != nil {
		return laxString(value)
	}
	return ""
}

// inner is a string in an object that is a field.
func (r *Request) inner(name, field string) (found string) {
	value := r.body.get(name)
	if value == nil || value[0] != '{' {
		return ""
	}
	_, _ = eachMember(value, 0, 1, func(key, value []byte) error {
		if unquote(key) == field {
			found = laxString(value)
		}
		return nil
	})
	return found
}

// anthropicUser is metadata.user_id. OpenAI's APIs have a metadata too, in
// which anything may stand.
func (r *Request) anthropicUser() string {
	if !r.Endpoint.Anthropic() {
		return ""
	}
	return r.inner("metadata", "user_id")
}
