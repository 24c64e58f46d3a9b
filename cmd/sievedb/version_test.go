package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A checkout said "(devel)", whatever its commit was.
func TestTheVersionNamesTheCommit(t *testing.T) {
	const revision = "b6222c53a14f94f886f8e4e7d3a809a2f6d182c8"
	for want, b := range map[string]build{
		"v1.2.3":                              {Version: "v1.2.3"},
		"v0.0.0-20261126155552-b6222c53a14f":  {Version: "v0.0.0-20261126155552-b6222c53a14f", Revision: revision},
		"(devel), commit " + revision:         {Version: "(devel)", Revision: revision},
		"v1.2.3, commit " + revision:          {Version: "v1.2.3", Revision: revision},
		"(devel), of an unknown commit":       {Version: "(devel)"},
		"(devel), commit abc123 with changes": {Version: "(devel)", Revision: "abc123", Modified: true},
	} {
		require.Equal(t, want, b.text())
	}
}
