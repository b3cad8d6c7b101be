package kvevents_test

import (
	"fmt"

	"github.com/banyan-llm/banyan/crdt"
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

// A tracker turns numbers and times into incarnations.
func ExampleTracker() {
	t := kvevents.NewTracker(false)
	show := func(seq uint64, ts int64) {
		out := t.Step(0, kvevents.Prior{}, kvevents.Live{Slot: crdt.Slot{Seq: seq, TS: ts}})
		fmt.Println("slot", seq, "epoch", out.Epoch, "new", out.Minted)
	}
	show(4, 5_000_000)
	show(5, 5_100_000)
	show(1, 9_000_000) // a smaller number with a later time: restarted
	// Output:
	// slot 4 epoch 5000 new true
	// slot 5 epoch 5000 new false
	// slot 1 epoch 9000 new true
}

func ExampleTopicHost() {
	fmt.Println(kvevents.TopicHost("kv@10.0.0.7:8000@org/model"))
	// Output: 10.0.0.7:8000
}
