package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sievedb/sievedb/cluster/internal/overview"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "sieved %s, %s, %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

// version returns the module's version, or the commit that the program was built from.
func version() string { return overview.Version() }
