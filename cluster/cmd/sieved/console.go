package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/sievedb/sievedb/cluster"
)

// serveConsole serves the page about the cluster on a loopback address until it is closed.
func serveConsole(address string, node *cluster.Node, logger *slog.Logger) (io.Closer, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--console: %w", err)
	}
	if at, ok := ln.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("--console: other machines could reach %s, and the page asks for no password; "+
			"use a loopback address such as 127.0.0.1:7433, and reach it through a tunnel", address), ln.Close())
	}
	server := newHTTPServer(node.Console(), maxHTTP)
	go func() { _ = server.Serve(ln) }()
	logger.Info("the console is at", "url", "http://"+ln.Addr().String()+"/")
	return server, nil
}
