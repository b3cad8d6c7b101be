package kvevents_test

import (
	"fmt"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/kvevents"
)

// A pushed batch is decoded, then packed into a slot of its stream.
func Example() {
	var d kvevents.Decoder
	pushed, err := d.DecodeHTTP([]byte(`{"replica":"r0","epoch_ms":1700000000000,"seq":0,"ts":1700000000.5,"events":[
	  {"type":"BlockStored","block_hashes":[11,12],"parent_block_hash":null,"token_ids":[1,2,3,4],"block_size":2,"medium":"GPU"}]}`),
		"application/json")
	if err != nil {
		fmt.Println(err)
		return
	}
	packer, err := kvevents.NewPacker(kvevents.PackConfig{Engine: kvevents.VLLM, Grid: 2, Hasher: radix.NewHasher([]byte("secret"))})
	if err != nil {
		fmt.Println(err)
		return
	}
	slot, packed, err := packer.Pack(pushed.Seq+1, pushed.Batch)
	fmt.Println(pushed.Replica, slot.Seq, packed.Stored, err)
	// Output: r0 1 2 <nil>
}

func ExampleTopicHost() {
	fmt.Println(kvevents.TopicHost("kv@10.0.0.7:8000@org/model"))
	// Output: 10.0.0.7:8000
}
