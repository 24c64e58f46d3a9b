package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/cluster"
)

func backupCommands() []*cobra.Command {
	return []*cobra.Command{backupCommand(), backupsCommand(), verifyCommand(), pruneCommand(), restoreCommand(), recoverCommand()}
}

// remote is a node that a command talks to, as a client.
type remote struct {
	addr, passwordFile, caFile string
	timeout                    time.Duration // of an answer; 0: none, because a backup may take hours
}

func (r *remote) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.addr, "node", "127.0.0.1:7001", "address of any node of the cluster")
	r.addSecrets(cmd)
}

func (r *remote) addSecrets(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.passwordFile, "password-file", "", "file with the password of clients")
	f.StringVar(&r.caFile, "tls-ca", "", "file with the certificates of the cluster's CA (PEM); the cluster uses TLS")
}

// explain adds to an error of a connection what an operator may have forgotten.
func (r *remote) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) && r.caFile == "":
		return fmt.Errorf("it closed the connection; it may be starting, or its cluster uses TLS and --tls-ca is missing: %w", err)
	case strings.HasPrefix(err.Error(), "NOAUTH"):
		return fmt.Errorf("--password-file is missing: %w", err)
	case strings.HasPrefix(err.Error(), "ERR unknown command"):
		return fmt.Errorf("it runs another version of sieved, or something else: %w", err)
	}
	return err
}

// client connects to the node.
func (r *remote) client() (*redis.Client, error) {
	redis.SetLogger(silence{}) // what it would log is the error that it returns
	password, err := readSecret("password-file", r.passwordFile)
	if err != nil {
		return nil, err
	}
	o := &redis.Options{Addr: r.addr, Password: password, ReadTimeout: -1, MaxRetries: -1, DialTimeout: 5 * time.Second}
	if r.timeout > 0 {
		o.ReadTimeout, o.WriteTimeout, o.DialerRetries = r.timeout, r.timeout, 1
	}
	if r.caFile == "" {
		return redis.NewClient(o), nil
	}
	pem, err := os.ReadFile(r.caFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-ca: %s has no certificate", r.caFile)
	}
	o.TLSConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return redis.NewClient(o), nil
}

func backupCommand() *cobra.Command {
	var node remote
	cmd := &cobra.Command{
		Use: "backup", Short: "Store a backup of a running cluster in the repository of its nodes",
		Long: `Store a backup of a running cluster in the repository that all its nodes were started with (--backups).

The leaders of the groups store their parts, while clients read and write. The command waits for the end; if it is
interrupted, the backup continues. The part of a group is its state at one moment after the command began. What the
repository has is not stored again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return makeBackup(cmd.Context(), &node, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	node.addFlags(cmd)
	return cmd
}

func makeBackup(ctx context.Context, node *remote, out, errOut io.Writer) (err error) {
	c, err := node.client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		showProgress(watching, c, errOut)
	}()
	reply, err := c.Do(ctx, "RAFT.BACKUP").Slice()
	stop()
	<-watched
	if err != nil {
		return node.explain(err)
	}
	return printBackup(out, reply)
}

// showProgress prints a line whenever more groups are done.
func showProgress(ctx context.Context, c *redis.Client, out io.Writer) {
	before := ""
	for pause(ctx, time.Second) == nil {
		info, err := c.Info(ctx, "persistence").Result()
		if err != nil {
			continue // the backup itself says what is wrong
		}
		for line := range strings.Lines(info) {
			done, found := strings.CutPrefix(strings.TrimSpace(line), "backup_groups_done:")
			if found && done != before {
				fmt.Fprintf(out, "groups stored: %s\n", done)
				before = done
			}
		}
	}
}

// printBackup prints the reply of RAFT.BACKUP: a line with an ID, and lines of group, index, bytes and new bytes.
func printBackup(out io.Writer, reply []any) error {
	id, groups, bytes, stored := "", 0, int64(0), int64(0)
	for _, row := range reply {
		text, _ := row.(string)
		if found, isID := strings.CutPrefix(text, "backup="); isID {
			id = found
			continue
		}
		var group, index, all, fresh int64
		if _, err := fmt.Sscanf(text, "group=%d index=%d bytes=%d new=%d", &group, &index, &all, &fresh); err != nil {
			return fmt.Errorf("RAFT.BACKUP has a line of another form: %v", row)
		}
		groups++
		bytes += all
		stored += fresh
	}
	if id == "" {
		return errors.New("the node answered RAFT.BACKUP without the ID of the backup")
	}
	_, err := fmt.Fprintf(out, "%s: %d groups with %d bytes, of which %d were new\n", id, groups, bytes, stored)
	return err
}

// onRepository lets a command read a repository itself, which a flag names.
func onRepository(cmd *cobra.Command, run func(cmd *cobra.Command, repository backup.Storage) error) *cobra.Command {
	var dir string
	cmd.Flags().StringVar(&dir, "repository", "", "directory of the repository: what the nodes have as --backups (required)")
	_ = cmd.MarkFlagRequired("repository")
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := os.Stat(dir); err != nil {
			return fmt.Errorf("--repository: %w", err)
		}
		repository, err := backup.NewDir(nil, dir)
		if err != nil {
			return err
		}
		return run(cmd, repository)
	}
	return cmd
}

func backupsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "backups", Short: "List the backups of clusters in a repository, the oldest first"}
	return onRepository(cmd, func(cmd *cobra.Command, repository backup.Storage) error {
		all, err := cluster.Backups(cmd.Context(), repository)
		return errors.Join(err, printBackups(cmd.OutOrStdout(), all))
	})
}

func printBackups(out io.Writer, all []cluster.Backup) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "id\tcluster\ttime\tgroups\tbytes\tnew bytes")
	for _, b := range all {
		bytes, stored := b.Bytes()
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\n", b.ID, b.Cluster, b.Time.Format(time.RFC3339), len(b.Groups), bytes, stored)
	}
	return t.Flush()
}

func verifyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "verify", Short: "Read every byte that the backups in a repository need, and report faults"}
	return onRepository(cmd, func(cmd *cobra.Command, repository backup.Storage) error {
		r, err := cluster.VerifyBackups(cmd.Context(), repository)
		if err != nil {
			return err
		}
		for _, fault := range r.Faults {
			fmt.Fprintln(cmd.OutOrStdout(), fault)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%d backups, %d objects, %d bytes read; %d faults\n", r.Backups, r.Objects, r.Bytes, len(r.Faults))
		if len(r.Faults) > 0 {
			return errors.New("the repository has faults")
		}
		return nil
	})
}

func pruneCommand() *cobra.Command {
	var keep backup.Policy
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove old backups of clusters from a repository",
		Long: `Remove the backups that --keep-last, --keep-daily and --keep-weekly do not keep, and what only they need.
Use this command, not "sievedb prune", for a repository with backups of clusters.`,
	}
	f := cmd.Flags()
	f.IntVar(&keep.KeepLast, "keep-last", 0, "keep so many newest backups of each cluster")
	f.IntVar(&keep.KeepDaily, "keep-daily", 0, "keep the newest backup of so many days")
	f.IntVar(&keep.KeepWeekly, "keep-weekly", 0, "keep the newest backup of so many weeks")
	f.BoolVarP(&keep.DryRun, "dry-run", "n", false, "remove nothing, and report what would be removed")
	return onRepository(cmd, func(cmd *cobra.Command, repository backup.Storage) error {
		r, err := cluster.PruneBackups(cmd.Context(), repository, keep)
		if err != nil {
			return err
		}
		return printPruned(cmd.OutOrStdout(), r, keep.DryRun)
	})
}

func printPruned(out io.Writer, r cluster.PruneReport, dryRun bool) error {
	if err := printBackups(out, r.Removed); err != nil {
		return err
	}
	if dryRun {
		fmt.Fprintf(out, "%d backups would be kept, and the %d above removed\n", len(r.Kept), len(r.Removed))
		return nil
	}
	fmt.Fprintf(out, "%d backups kept; the %d above with %d objects of %d bytes removed\n", len(r.Kept), len(r.Removed), r.Objects, r.Bytes)
	if r.Waiting > 0 {
		fmt.Fprintf(out, "%d further objects wait until a running backup ends; a prune after that removes them\n", r.Waiting)
	}
	return nil
}

func restoreCommand() *cobra.Command {
	var listen string
	var o cluster.RestoreOptions
	cmd := &cobra.Command{
		Use: "restore", Short: "Make the first node of a new cluster from a backup",
		Long: `Make the directory of the first node of a new cluster from a backup. Start that node with the same --id and
--dir, and further nodes with --join.

The new cluster has an ID of its own: its nodes and those of the old cluster refuse each other. A node does not start
in the directory before the restore is complete; run an interrupted restore again.`,
		Example: `  sieved restore --repository /mnt/backups --id 1 --dir d1 --listen 127.0.0.1:7001
  sieved --id 1 --dir d1 --listen 127.0.0.1:7001`,
	}
	f := cmd.Flags()
	f.StringVar(&o.Backup, "backup", "", "ID of the backup, as 'sieved backups' lists it (default: the newest)")
	f.StringVar(&o.ID, "id", "", "name of the new node, for all time (required)")
	f.StringVar(&o.Dir, "dir", "", "directory of the new node, which must be empty or not exist (required)")
	f.StringVar(&o.Zone, "zone", "", "zone of the node")
	f.StringVar(&listen, "listen", "127.0.0.1:7001", "address that the node will have")
	f.StringVar(&o.Advertise, "advertise", "", "address that others will use for the node (default: that of --listen)")
	f.IntVar(&o.Replicas, "replicas", 0, "replicas of each group (default: as in the backup)")
	_, _ = cmd.MarkFlagRequired("id"), cmd.MarkFlagRequired("dir")
	return onRepository(cmd, func(cmd *cobra.Command, repository backup.Storage) error {
		o.Advertise = cmp.Or(o.Advertise, listen)
		o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
		return restore(cmd.Context(), repository, o, cmd.OutOrStdout())
	})
}

func restore(ctx context.Context, repository backup.Storage, o cluster.RestoreOptions, out io.Writer) error {
	b, err := cluster.Restore(ctx, repository, o)
	if err != nil {
		return err
	}
	bytes, _ := b.Bytes()
	fmt.Fprintf(out, "restored %s of %s: %d groups with %d bytes\n", b.ID, b.Time.Format(time.RFC3339), len(b.Groups), bytes)
	fmt.Fprintf(out, "start the node:  sieved --id %s --dir %s --listen %s\n", o.ID, o.Dir, o.Advertise)
	return nil
}
