package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/sievedb/sievedb/cluster"
)

func recoverCommand() *cobra.Command {
	var o cluster.RecoverOptions
	var accept bool
	cmd := &cobra.Command{
		Use: "recover", Short: "Make a node that has lost the majority the only node of a new cluster", Args: cobra.NoArgs,
		Long: `Make a node that has lost the majority of its groups the only node of a new cluster, with what its replicas have.

What the lost nodes had acknowledged and this one had not received is lost, and nobody can tell what that is. Use it
only if the others never return and there is no newer backup. The node must not run, and needs replicas of all groups.
The other nodes of the old cluster are refused from then on; they need empty directories to join.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !accept {
				return errors.New("acknowledged writes may be lost: read 'sieved recover --help', and add --accept-data-loss")
			}
			o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			return recoverNode(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.ID, "id", "", "name of the node (required)")
	f.StringVar(&o.Dir, "dir", "", "directory of the node (required)")
	f.StringVar(&o.Advertise, "advertise", "", "address that others will use for the node (default: as before)")
	f.BoolVar(&accept, "accept-data-loss", false, "say that acknowledged writes may be lost")
	_, _ = cmd.MarkFlagRequired("id"), cmd.MarkFlagRequired("dir")
	return cmd
}

func recoverNode(ctx context.Context, o cluster.RecoverOptions, out io.Writer) error {
	groups, err := cluster.Recover(ctx, o)
	if err != nil {
		return err
	}
	for _, g := range groups {
		switch {
		case g.Gap:
			fmt.Fprintf(out, "group %d: entry %d was the last one applied; the log does not continue it and was not used\n", g.Group, g.Applied)
		case g.FromLog > 0:
			fmt.Fprintf(out, "group %d: entry %d was the last one applied; %d more from the log, of which some may never have been acknowledged\n",
				g.Group, g.Applied, g.FromLog)
		default:
			fmt.Fprintf(out, "group %d: entry %d was the last one applied\n", g.Group, g.Applied)
		}
		if g.NoVoter {
			fmt.Fprintf(out, "WARNING: this node was no voter of group %d: what its voters acknowledged meanwhile is lost. If the "+
				"directory of a voter is left, recover that one.\n", g.Group)
		}
	}
	fmt.Fprintf(out, "WARNING: writes that the lost nodes acknowledged and this one had not received are lost.\n"+
		"Node %s is now the only node of a new cluster. Start it, then join nodes with empty directories, and back it up.\n", o.ID)
	return nil
}
