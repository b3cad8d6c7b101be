package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/proxy"
)

// idleLinger is how long idle client connections stay open after the listener
// closed: a client may be writing its next request on one at that moment.
const idleLinger = 3 * time.Second

// adminGrace bounds the end of admin requests, which may be long polls.
const adminGrace = time.Second

// Bounds of what one client may send before it is understood. A connection of
// HTTP/2 whose client is gone is found by pings, for an answer may be silent
// for minutes.
const (
	maxHeaderBytes = 64 << 10
	maxOperators   = 1024 // connections to the admin listener
)

var http2 = &http.HTTP2Config{MaxConcurrentStreams: 250, SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}

// live runs the peer's parts in the order of their needs and ends them in the
// reverse one.
func (p *Peer) live(ctx context.Context) error {
	defer p.close()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()

	api, err := proxy.New(p.proxyConfig())
	if err != nil {
		return err
	}
	p.front.api.Store(api)
	closed := func(listener string) func(string) {
		return func(why string) { p.metrics.Refused.WithLabelValues(listener, why).Inc() }
	}
	files := openFiles()
	fits := func() (int, string) {
		l := &p.rules.config().Limits
		return fitFiles(l.Connections, l.Concurrency, files)
	}
	if most, why := fits(); why != "" {
		if most < p.rules.config().Limits.Concurrency { // it will be felt
			p.log.Warn(why)
			p.front.fewFiles = why
		} else {
			p.log.Info(why)
		}
	}
	clients := access.NewConnections(func() int { most, _ := fits(); return most }, closed("http"))
	operators := access.NewConnections(func() int { return maxOperators }, closed("admin"))
	aged := proxy.ConnContext(p.rules.config().HTTP.ConnectionAge)
	public := &http.Server{
		Handler:     clients.Guard(publicHealth, p.front.doors.GuardOrigins(http.HandlerFunc(p.front.full)).ServeHTTP, p.front.publicHandler(api).ServeHTTP),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return aged(clients.Context(ctx, c), c) }, ConnState: clients.Note,
		ReadHeaderTimeout: p.rules.config().Limits.HeaderTime, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: maxHeaderBytes, HTTP2: http2,
		ErrorLog: p.log.Named("http").StandardLogger(nil),
	}
	admin := &http.Server{
		Handler: operators.Guard(access.HealthPaths, p.front.full, p.front.adminHandler().ServeHTTP), ConnContext: operators.Context, ConnState: operators.Note,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeaderBytes, HTTP2: http2,
		ErrorLog: p.log.Named("admin").StandardLogger(nil),
	}
	if p.rules.config().HTTP.TLS.On() {
		public.TLSConfig = p.front.doors.TLS(access.HTTPCertificate)
	}
	if p.rules.config().Admin.TLS.On() {
		admin.TLSConfig = p.front.doors.TLS(access.AdminCertificate)
	}
	admin.RegisterOnShutdown(p.front.console.Close)
	failed := make(chan error, 3)
	serve := func(name string, s *http.Server, l net.Listener) {
		run := s.Serve
		if s.TLSConfig != nil {
			run = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
		}
		wg.Go(func() {
			if err := run(l); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				failed <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	if err := p.mesh.start(); err != nil {
		return err
	}
	p.census.tellRoles()
	wg.Go(func() { p.fleet.Run(background) })
	wg.Go(func() { p.census.discover(background) })
	wg.Go(func() { p.ingest.run(background) })
	wg.Go(func() { p.told.run(background) })
	wg.Go(func() { p.house.run(background) })
	wg.Go(func() { announce(background, p.path.picker.Announcer()) })
	wg.Go(func() { p.rules.followConfig(background) })
	p.census.warmUp(ctx)
	serve("http.listen", public, p.front.public)
	serve("admin.listen", admin, p.front.admin)
	p.readiness.serving.Store(true)
	p.log.Info("peer started", "name", p.name, "http", p.front.public.Addr().String(), "admin", p.front.admin.Addr().String(), "mesh", p.mesh.address(), "policy", p.rules.config().Policy)

	select {
	case <-ctx.Done():
		p.drain(clients)
	case err = <-failed:
		p.log.Error("this peer stopped on an error", "err", err)
	}
	_ = public.Close()
	p.path.pairs.legs.Stop()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminGrace)
	if admin.Shutdown(end) != nil {
		_ = admin.Close()
	}
	cancel()
	stop()
	wg.Wait()
	p.mesh.stop()
	p.log.Info("peer stopped")
	return err
}

// drain is the clean way out: (1) not ready, no ownership, Connection: close
// on every answer; (2) wait until the balancer saw it; (3) close the listener, losing nobody;
// (4) let streams finish and keep idle connections a little; then load is zero
// and (5) serf is left, in live. http.Server.Shutdown would not do: it closes a
// connection the moment its last stream ends, and the client may just then
// write its next request.
func (p *Peer) drain(clients *access.Connections) {
	p.readiness.draining.Store(true)
	p.mesh.setTags(false, true, p.rules.Load().print)
	p.log.Info("draining", "delay", p.rules.config().Drain.Delay, "timeout", p.rules.config().Drain.Timeout)
	time.Sleep(p.rules.config().Drain.Delay)
	_ = closeGracefully(p.front.public)
	time.Sleep(access.RetireTick) // for the last one accepted to be noted
	end, cancel := context.WithTimeout(context.Background(), p.rules.config().Drain.Timeout)
	defer cancel()
	if cut := clients.Retire(end, min(idleLinger, p.rules.config().Drain.Delay)); cut > 0 {
		p.log.Warn("running requests were cut at drain.timeout", "streams", cut)
	}
}
