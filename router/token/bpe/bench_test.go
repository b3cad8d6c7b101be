package bpe

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// long is 400,000 characters of English: TOKENIZERS_TEXT (a file; War and Peace of
// ollama's test data, say), else the plain texts over and over.
func long(t testing.TB) string {
	t.Helper()
	if name := os.Getenv("TOKENIZERS_TEXT"); name != "" {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string([]rune(string(b))[:400_000])
	}
	s := strings.Join(plainTexts, " ")
	return string([]rune(strings.Repeat(s, 400))[:400_000])
}

// BenchmarkEncode400k reports the best run beside the mean, as the oracle does: the
// machine may have other work.
func BenchmarkEncode400k(b *testing.B) {
	text := long(b)
	for _, file := range realFiles(b) {
		tok := mustLoad(b, file)
		b.Run(filepath.Base(file), func(b *testing.B) {
			var ids []uint32
			best := time.Hour
			b.ReportAllocs()
			for b.Loop() {
				begin := time.Now()
				ids = tok.Encode(ids[:0], text, false)
				best = min(best, time.Since(begin))
			}
			b.ReportMetric(best.Seconds()*1e3, "best-ms")
			b.ReportMetric(float64(len(ids))/best.Seconds()/1e6, "best-Mtok/s")
		})
	}
}

// BenchmarkOracle400k is the same work done by tokenizers (Rust), inside its own
// process, without the time to start it.
func BenchmarkOracle400k(b *testing.B) {
	text := long(b)
	for _, file := range realFiles(b) {
		b.Run(filepath.Base(file), func(b *testing.B) {
			var best struct {
				Tokens  int
				Seconds float64
			}
			for b.Loop() {
				ask(b, text, &best, "--time", file)
			}
			b.ReportMetric(0, "ns/op") // starting Python is not the work
			b.ReportMetric(best.Seconds*1e3, "best-ms")
			b.ReportMetric(float64(best.Tokens)/best.Seconds/1e6, "best-Mtok/s")
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range realFiles(b) {
		file, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(filepath.Base(name), func(b *testing.B) {
			before := heap()
			var tok *Tokenizer
			for b.Loop() {
				if tok, err = Load(file); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(heap()-before)/1e6, "MB-kept")
			runtime.KeepAlive(tok)
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
