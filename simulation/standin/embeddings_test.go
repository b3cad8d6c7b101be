package standin

import (
	"encoding/base64"
	"testing"
)

func TestEmbeddings(t *testing.T) {
	s := start(t, Config{})
	var list struct {
		Data []struct {
			Index     int
			Embedding []float64
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if code := post(t, s, "/v1/embeddings", obj{"input": []string{"a b", "a b", "c"}}, &list); code != 200 || len(list.Data) != 3 || list.Usage.Prompt != 8 {
		t.Fatalf("%d %+v", code, list)
	}
	if a, b, c := list.Data[0].Embedding, list.Data[1].Embedding, list.Data[2].Embedding; len(a) != dimensions || a[0] != b[0] || a[0] == c[0] {
		t.Errorf("vectors %v, %v, %v", a, b, c)
	}
	var packed struct{ Data []struct{ Embedding string } }
	post(t, s, "/v1/embeddings", obj{"input": "a b", "encoding_format": "base64"}, &packed)
	if raw, err := base64.StdEncoding.DecodeString(packed.Data[0].Embedding); err != nil || len(raw) != 4*dimensions {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	if code := post(t, s, "/v1/embeddings", obj{}, nil); code != 400 {
		t.Errorf("no input answers %d", code)
	}
}
