package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sievedb/sievedb/cluster"
)

func initCommand() *cobra.Command {
	var o cluster.Options
	cmd := &cobra.Command{
		Use: "init --id ID --dir DIR", Short: "Make the directory of the first node of a new cluster", Args: cobra.NoArgs,
		Long: `Make the directory of the first node of a new cluster, once. Then start that node, and further ones with --join.

Nothing else creates a cluster: a node whose directory is lost or not mounted must not be the first of another one, at
an address where clients look for the old one. So this command has no place in scripts or units that start nodes.`,
		Example: `  sieved init --id 1 --dir d1
  sieved --id 1 --dir d1 --listen 127.0.0.1:7001
  sieved --id 2 --dir d2 --listen 127.0.0.1:7002 --join 127.0.0.1:7001`,
		RunE: func(cmd *cobra.Command, _ []string) error { return initNode(o, cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.ID, "id", "", "name of the node, for all time (required)")
	f.StringVar(&o.Dir, "dir", "", "directory of the node, which must be empty or not exist (required)")
	f.IntVar(&o.Shape.Groups, "groups", 0, "groups of the cluster, which never change: 1, 4, 16 or 64 (default 4)")
	f.IntVar(&o.Shape.Replicas, "replicas", 0, "replicas of each group (default 3)")
	_, _ = cmd.MarkFlagRequired("id"), cmd.MarkFlagRequired("dir")
	return cmd
}

func initNode(o cluster.Options, out io.Writer) error {
	if err := cluster.Create(o); err != nil {
		return err
	}
	fmt.Fprintf(out, `%s is the directory of node %s, the first of a new cluster of %d groups with %d replicas each.
start it:           sieved --id %s --dir %s --listen HOST:PORT
start other nodes:  sieved --id ID --dir DIR --listen HOST:PORT --join HOST:PORT
`, o.Dir, o.ID, cmp.Or(o.Shape.Groups, 4), cmp.Or(o.Shape.Replicas, 3), o.ID, o.Dir)
	return nil
}
