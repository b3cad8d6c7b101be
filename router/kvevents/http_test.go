package kvevents

import (
	"strings"
	"testing"
)

const pushedJSON = `{"replica":"r0","epoch_ms":1700000000123,"seq":4,"ts":1700000000.25,"events":[
 {"type":"BlockStored","block_hashes":[18446744073709551615,-2,"00ff0102030405060708"],"parent_block_hash":null,
  "token_ids":[1,2,3,4,5,6],"block_size":2,"medium":"GPU","lora_name":"ad",
  "extra_keys":[["ad","tenant"],["ad"],["ad",["img",3]]]},
 {"type":"BlockRemoved","block_hashes":[7],"medium":"GPU"},
 {"type":"AllBlocksCleared"}]}`

func TestDecodeHTTP(t *testing.T) {
	var d Decoder
	got, err := d.DecodeHTTP([]byte(pushedJSON), "application/json; charset=utf-8")
	if err != nil {
		t.Fatal(err)
	}
	if got.Replica != "r0" || got.Epoch != 1700000000123 || got.Seq != 4 || got.Batch.TS != 1700000000250000 || got.Batch.Layout != LayoutJSON {
		t.Fatalf("%+v", got)
	}
	e := got.Batch.Events[0]
	if len(got.Batch.Events) != 3 || e.Hashes[0] != 1<<64-1 || e.Hashes[1] != 1<<64-2 || e.Hashes[2] != 0x0102030405060708 {
		t.Fatalf("hashes %x", e.Hashes)
	}
	if e.Lora != "ad" || e.Salt != "tenant" || len(e.Extra) != 3 || len(e.Extra[1]) != 0 || len(e.Extra[2]) == 0 {
		t.Fatalf("namespace %q %q extra %q", e.Lora, e.Salt, e.Extra)
	}
}

func TestDecodeHTTPMsgpackGivesTheSameSlot(t *testing.T) {
	p := new(pack).mapping(5).str("replica").str("r0").str("epoch_ms").num(9).str("seq").num(0).str("ts").float(1.5).str("events").array(1)
	run{first: 1, blocks: 2, size: 2, token: 5, lora: "ad", salt: "s"}.appendTo(p)
	js := `{"replica":"r0","epoch_ms":9,"seq":0,"ts":1.5,"events":[{"type":"BlockStored","block_hashes":[1,2],"parent_block_hash":null,
	 "token_ids":[5,6,7,8],"block_size":2,"medium":"GPU","lora_name":"ad","extra_keys":[["s"],null]}]}`
	slotOf := func(body, kind string) string {
		var d Decoder
		got, err := d.DecodeHTTP([]byte(body), kind)
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := mustPacker(t, VLLM, 2).Pack(got.Seq+1, got.Batch)
		if err != nil {
			t.Fatal(err)
		}
		return string(s.Body)
	}
	if slotOf(string(p.b), "application/msgpack") != slotOf(js, "application/json") {
		t.Fatal("I1: two encodings of one batch gave two slots")
	}
}

func TestDecodeHTTPNamesTheFault(t *testing.T) {
	for want, body := range map[string]string{
		"event 1: unknown or missing event type": strings.Replace(pushedJSON, "BlockRemoved", "BlockMoved", 1),
		"event 0: token count does not match":    strings.Replace(pushedJSON, "[1,2,3,4,5,6]", "[1,2,3,4,5]", 1),
		`"seq" is missing`:                       strings.Replace(pushedJSON, `"seq"`, `"sequence"`, 1),
		`"seq": out of range`:                    strings.Replace(pushedJSON, `"seq":4`, `"seq":-4`, 1),
		`"epoch_ms": out of range`:               strings.Replace(pushedJSON, "1700000000123", "281474976710656", 1),
		`"epoch_ms" is 0`:                        strings.Replace(pushedJSON, "1700000000123", "0", 1),
		`"ts": timestamp out of range`:           strings.Replace(pushedJSON, "1700000000.25", "-1", 1),
		"body is no map":                         `[1]`,
		"more than one JSON value":               pushedJSON + "{}",
		"nested too deep":                        strings.Repeat("[", 100),
		"EOF":                                    pushedJSON[:40],
	} {
		var d Decoder
		if _, err := d.DecodeHTTP([]byte(body), "application/json"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
