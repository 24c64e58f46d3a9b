package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/cluster"
)

// settings are the flags of a node.
type settings struct {
	options                  cluster.Options
	passwordFile, secretFile string
	metrics                  string
	metricsHosts             []string
	backups                  string
	console                  string
	logFormat                string
	verbose                  bool
	stopWithParent           bool
}

func rootCommand() *cobra.Command {
	var s settings
	root := &cobra.Command{
		Use:   "sieved --id ID --dir DIR --listen ADDRESS",
		Short: "A linearizable, replicated and sharded key-value server for clients of Redis Cluster",
		Long: `sieved runs one node of a cluster. 'sieved init' makes the first node of a new cluster, once; others join it:

  sieved init --id 1 --dir d1
  sieved --id 1 --dir d1 --listen 127.0.0.1:7001
  sieved --id 2 --dir d2 --listen 127.0.0.1:7002 --join 127.0.0.1:7001
  sieved --id 3 --dir d3 --listen 127.0.0.1:7003 --join 127.0.0.1:7001
  redis-cli -c -p 7001

A node that was stopped is started again with the same --id and --dir; its --join then has no effect.
Without TLS and without a secret, a node listens on loopback addresses only, and each user of the machine may act as
a node: read, change and delete everything, without the password of clients. A secret authenticates and encrypts what
nodes say to each other, and nothing that clients say.`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), &s, cmd.InOrStdin(), cmd.ErrOrStderr())
		},
	}
	s.addFlags(root)
	root.AddCommand(initCommand(), demoCommand(), versionCommand())
	root.AddCommand(backupCommands()...)
	root.AddCommand(lookCommands()...)
	return root
}

func (s *settings) addFlags(cmd *cobra.Command) {
	f, o := cmd.Flags(), &s.options
	f.StringVar(&o.ID, "id", "", "name of the node, for all time (required)")
	f.StringVar(&o.Dir, "dir", "", "directory of the node (required)")
	f.StringVar(&o.Zone, "zone", "", "zone of the node; replicas of a group are in different zones if possible")
	f.StringVar(&o.Network.Listen, "listen", "127.0.0.1:7001", "address for clients and other nodes; without a secret and TLS each local user may act as a node")
	f.StringVar(&o.Network.Advertise, "advertise", "", "address that others use for this node (default: that of --listen, which must not be 0.0.0.0 then)")
	f.StringSliceVar(&o.Network.Join, "join", nil, "addresses of nodes of the cluster; a node whose directory is empty joins it")
	f.StringVar(&s.passwordFile, "password-file", "", "file with the password that clients give to AUTH; it needs --secret-file or TLS")
	f.StringVar(&s.secretFile, "secret-file", "", "file with the secret that the nodes share, at least 16 bytes: it authenticates and encrypts their connections")
	f.StringVar(&o.Security.CertFile, "tls-cert", "", "file with the certificate of this node (PEM)")
	f.StringVar(&o.Security.KeyFile, "tls-key", "", "file with its key (PEM)")
	f.StringVar(&o.Security.CAFile, "tls-ca", "", "file with the certificates of the cluster's CA (PEM)")
	f.BoolVar(&o.Security.Insecure, "insecure", false, "allow other addresses than loopback without TLS and without a secret")
	f.Int64Var(&o.Memory.Cache, "cache-bytes", 0, "bytes of the block caches of all groups (default 256 MiB)")
	f.Int64Var(&o.Memory.Memtables, "memtable-bytes", 0, "bytes of the memtables of all groups (default 256 MiB)")
	f.Int64Var(&o.Disk.Reserve, "disk-reserve", 0, "free bytes below which the node refuses writes (default 256 MiB)")
	f.DurationVar(&o.Timing.Heartbeat, "heartbeat", 0, "time without a leader after which an election begins (default 1s)")
	f.DurationVar(&o.Timing.Gossip, "gossip", 0, "time between exchanges of news with other nodes (default 1s)")
	f.DurationVar(&o.Timing.DeadAfter, "dead-after", 0, "time after which a silent node is replaced (default 5m)")
	f.DurationVar(&o.Timing.Write, "reply-timeout", 0, "time after which a write is reported as UNKNOWN, and a read fails; less than the read timeout of the clients (default 2s)")
	f.DurationVar(&o.Timing.OnceFor, "once-for", 0, "time for which the reply of a request with an ID (ONCE) is kept (default 10m)")
	f.DurationVar(&o.Timing.StaleBound, "stale-bound", 0, "largest age of reads after READONLY (default 10s)")
	f.IntVar(&o.Limits.MaxClients, "max-clients", 0, "connections of clients (default 10000, fewer if the process may open few files)")
	f.IntVar(&o.Limits.MaxUnauthenticated, "max-unauthenticated", 0, "further connections before AUTH; the oldest is closed (default 512)")
	f.DurationVar(&o.Limits.AuthTimeout, "auth-timeout", 0, "time for AUTH (default 10s)")
	f.DurationVar(&o.Limits.RequestTimeout, "request-timeout", 0, "time for the rest of a request (default 30s, and 1s per 16 KiB)")
	f.DurationVar(&o.Limits.IdleTimeout, "idle-timeout", 0, "time that a client may be silent between requests (default: no limit)")
	f.Int64Var(&o.Limits.ClientBytes, "client-bytes", 0, "bytes of unfinished requests and unread replies of all clients (default: a quarter of the memory)")
	f.Func("scrub-rate", "bytes per second of its files that the node reads to find damage; 0: none (default: all in a week)", s.setScrub)
	f.StringVar(&s.metrics, "metrics", "", "address for HTTP: /healthz, /readyz and /metrics")
	f.StringSliceVar(&s.metricsHosts, "metrics-host", nil,
		"further host names under which --metrics is requested (always: IP addresses, localhost, this machine's name, those of --metrics, --advertise and --listen)")
	f.StringVar(&s.backups, "backups", "", "directory for backups of the cluster, which all nodes share; see 'sieved backup'")
	f.StringVar(&s.console, "console", "", "loopback address for a web page about the cluster")
	f.StringVar(&s.logFormat, "log-format", "text", "text or json")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "log more")
	f.BoolVar(&s.stopWithParent, "stop-with-parent", false, "stop at the end of standard input")
	_ = f.MarkHidden("stop-with-parent")
}

// setScrub sets --scrub-rate, of which 0 turns the scrub off.
func (s *settings) setScrub(text string) error {
	rate, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return err
	case rate < 0:
		return errors.New("it is negative")
	case rate == 0:
		rate = -1
	}
	s.options.Limits.ScrubBytesPerSecond = rate
	return nil
}

func (s *settings) logger(w io.Writer) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if s.verbose {
		o.Level = slog.LevelDebug
	}
	switch s.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("--log-format is %q; it must be text or json", s.logFormat)
}

// readSecret returns the first line of a file, "" for no file.
func readSecret(flag, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimRight(line, "\r"); line == "" {
		return "", fmt.Errorf("--%s: the first line of %s is empty", flag, file)
	}
	return line, nil
}

// serve runs a node until ctx ends.
func serve(ctx context.Context, s *settings, stdin io.Reader, stderr io.Writer) (err error) {
	o := s.options
	o.Timing.Read = o.Timing.Write
	if o.Logger, err = s.logger(stderr); err != nil {
		return err
	}
	if o.Security.Password, err = readSecret("password-file", s.passwordFile); err != nil {
		return err
	}
	if o.Security.Secret, err = readSecret("secret-file", s.secretFile); err != nil {
		return err
	}
	if s.backups != "" {
		if o.Backups, err = backup.NewDir(nil, s.backups); err != nil {
			return fmt.Errorf("--backups: %w", err)
		}
	}
	// ":7001" is every address of the machine, which is for clusters that authenticate.
	if strings.HasPrefix(o.Network.Listen, ":") && !o.Security.Enabled() && !o.Security.Insecure {
		o.Network.Listen = "127.0.0.1" + o.Network.Listen
		o.Logger.Warn("without TLS and without a secret, this node listens on loopback only", "listen", o.Network.Listen)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.stopWithParent {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	node, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	o.Logger.Info("the node has started", "id", o.ID, "addr", node.Addr(), "version", version())
	return errors.Join(run(ctx, s, node, o.Logger), node.Close())
}

// hosts returns the names under which --metrics is served.
func (s *settings) hosts() []string {
	hosts := append([]string(nil), s.metricsHosts...)
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	for _, addr := range []string{s.metrics, s.options.Network.Advertise, s.options.Network.Listen} {
		if host, _, err := net.SplitHostPort(addr); err == nil && host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// run serves HTTP, if wanted, and waits for the end of ctx or for a removal.
func run(ctx context.Context, s *settings, node *cluster.Node, logger *slog.Logger) error {
	if s.metrics != "" {
		ln, err := net.Listen("tcp", s.metrics)
		if err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		server := newHTTPServer(node.Handler(s.hosts()...), maxHTTP)
		go func() { _ = server.Serve(ln) }()
		defer func() { _ = server.Close() }()
		logger.Info("figures are at", "url", "http://"+ln.Addr().String()+"/metrics")
	}
	if s.console != "" {
		page, err := serveConsole(s.console, node, logger)
		if err != nil {
			return err
		}
		defer func() { _ = page.Close() }()
	}
	select {
	case <-ctx.Done():
		logger.Info("the node stops")
		return nil
	case <-node.Done():
		return node.Err()
	}
}
