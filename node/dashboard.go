package node

import (
	"context"
	"log/slog"
	"net"

	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/dashboard"
)

// dashboardOff is the value that disables the dashboard.
const dashboardOff = "off"

// page is the dashboard's listener, and the dashboard once the peer exists; nil without one.
type page struct {
	listener net.Listener
	server   *dashboard.Server
}

// openPage opens the address of the dashboard, by default that of the last run if it is free.
func openPage(ctx context.Context, addr string, kept meta) (*page, error) {
	if addr == "" || addr == dashboardOff {
		return nil, nil
	}
	last := ""
	if err := kept.GetJSON(metaDashboard, &last); err != nil {
		return nil, err
	}
	ln, err := dashboard.Listen(ctx, addr, last)
	if err != nil {
		return nil, err
	}
	if addr := ln.Addr().String(); addr != last {
		err = kept.PutJSON(metaDashboard, addr)
	}
	return &page{listener: ln}, err
}

// show creates the dashboard of a peer with that configuration.
func (p *page) show(cfg *Config, peer *shown, log *slog.Logger) (err error) {
	if p != nil {
		c := dashboard.Config{DataDir: cfg.DataDir, Name: p2p.Short(peer.deps.Self), Login: cfg.DashboardLogin}
		p.server, err = dashboard.New(c, peer, log)
	}
	return err
}

// url returns the URL of the dashboard, empty if there is none.
func (p *page) url() string {
	if p == nil {
		return ""
	}
	addr := p.listener.Addr().(*net.TCPAddr) //nolint:forcetypeassert // of a listener on TCP
	if addr.IP.IsUnspecified() {
		return "http://" + (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: addr.Port}).String() + "/"
	}
	return "http://" + addr.String() + "/"
}

// Dashboard implements control.Backend.
func (p *page) Dashboard(context.Context) (*control.Dashboard, error) {
	if p == nil {
		return nil, control.Usage("this peer has no dashboard: it runs with --dashboard off")
	}
	url := p.url()
	return &control.Dashboard{URL: url, Login: p.server.Link(url)}, nil
}

// close closes the listener, if the dashboard was not served.
func (p *page) close() error {
	if p == nil {
		return nil
	}
	return closeListener(p.listener)
}
