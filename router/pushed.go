package router

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents"
)

// serveEvents takes one batch of events by HTTP: the sender names replica,
// incarnation and number itself. 202, or 400 naming the event that makes no
// sense.
func (g *follower) serveEvents(w http.ResponseWriter, r *http.Request) {
	if g.rules.config().Ingest.Token == "" {
		writeError(w, http.StatusForbidden, errors.New("events by HTTP are off: set ingest.token"))
		return
	}
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(g.rules.config().Ingest.Token))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		writeError(w, http.StatusUnauthorized, errors.New("the bearer token is not that of ingest.token"))
		return
	}
	size := int64(maxEventBytes)
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength)
	}
	if !g.makeRoom(r.Context(), size) {
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusServiceUnavailable, errors.New("this peer reads as many events as it has memory for: send the batch again"))
		return
	}
	defer g.room.Release(size)
	body, err := readBounded(r, maxEventBytes)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	if err := g.pushed(body, r.Header.Get("Content-Type"), time.Now()); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// roomTime is how long a batch that is posted waits for room.
const roomTime = 5 * time.Second

// makeRoom waits until there is room for a batch.
func (g *follower) makeRoom(ctx context.Context, bytes int64) bool {
	ctx, cancel := context.WithTimeout(ctx, roomTime)
	defer cancel()
	return g.room.Acquire(ctx, bytes) == nil
}

// pushed decodes and delivers one batch that came by HTTP.
func (g *follower) pushed(body []byte, contentType string, at time.Time) error {
	var d kvevents.Decoder
	batch, err := d.DecodeHTTP(body, contentType)
	if err != nil {
		return err
	}
	r := g.fleet.Get(batch.Replica)
	if r == nil {
		return fmt.Errorf("no replica %q; GET /v1/status lists them", batch.Replica)
	}
	engine, err := kvevents.ParseEngine(r.Engine())
	if err != nil {
		return fmt.Errorf("replica %s: its engine is not known yet", r.Name())
	}
	cfg := kvevents.PackConfig{Engine: engine, Grid: g.rules.config().Grid, Hasher: g.hasher}
	packer, err := kvevents.NewPacker(cfg)
	if err != nil {
		return err
	}
	slot, packed, err := packer.Pack(batch.Seq+1, batch.Batch)
	if err != nil {
		return err
	}
	if packed.Misfits > 0 {
		return errors.New(cfg.Cure(packed.Misfit))
	}
	anchor := slot.Seq
	if prior, ok := g.index.Prior(r.Stream); ok && prior.Epoch == batch.Epoch {
		anchor = prior.Anchor
	}
	g.Deliver(kvevents.Delivery{Stream: r.Stream, Epoch: batch.Epoch, Anchor: anchor, Slots: []crdt.Slot{slot}, ReceivedAt: at})
	return nil
}
