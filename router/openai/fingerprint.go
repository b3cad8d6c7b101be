package openai

import "hash/maphash"

// fingerprintBytes is how much of the end of a prompt tells it from others.
const fingerprintBytes = 1 << 10

var fingerprintSeed = maphash.MakeSeed()

// Fingerprint tells bodies apart within this process: requests that end alike
// have the same one. O(1).
func (r *Request) Fingerprint() uint64 {
	var h maphash.Hash
	h.SetSeed(fingerprintSeed)
	for _, name := range []string{"messages", "input", "prompt", "text"} {
		value := r.body.get(name)
		_, _ = h.Write(value[max(0, len(value)-fingerprintBytes):])
	}
	return h.Sum64()
}
