package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// suite is a module that uses goleveldb, with the packages whose tests run with the replacement.
type suite struct {
	module, version string
	packages        []string // without the module's path
}

// suites are modules that the Go module proxy serves.
var suites = []suite{
	{"github.com/ipfs/go-ds-leveldb", "v0.5.0", []string{""}},
	{"github.com/ethereum/go-ethereum", "v1.17.10", []string{"/ethdb/leveldb", "/p2p/enode"}},
	{"github.com/blevesearch/bleve", "v1.0.14", []string{"/index/store/goleveldb"}},
	{"github.com/blevesearch/bleve/v2", "v2.6.3", []string{"/index/upsidedown/store/goleveldb"}},
	{"github.com/ava-labs/avalanchego", "v1.15.0", []string{"/database/leveldb"}},
	{"github.com/libp2p/go-libp2p", "v0.51.0", []string{"/p2p/host/peerstore/pstoreds"}},
	{"github.com/btcsuite/btcd", "v0.24.2", []string{"/database/ffldb"}},
	{"github.com/cometbft/cometbft-db", "v0.14.1", []string{""}},
	{"github.com/tendermint/tm-db", "v0.6.7", []string{""}},
	{"github.com/syncthing/syncthing", "v1.29.7", []string{"/lib/db/backend", "/lib/db"}},
}

// The test suites of modules that use goleveldb pass, with one replace line in a module that requires them.
func TestSuitesOfModulesThatUseGoleveldb(t *testing.T) {
	if !*long {
		t.Skip("with -compat.long; it downloads these modules")
	}
	for _, s := range suites {
		t.Run(filepath.Base(s.module), func(t *testing.T) {
			dir := t.TempDir()
			text := fmt.Sprintf("module suite\ngo 1.25.0\nrequire %s %s\nreplace %s => %s\nreplace github.com/sievedb/sievedb => %s\n",
				s.module, s.version, goleveldb, absolute(moduleDir), absolute("../.."))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600))
			run := func(args ...string) {
				cmd := exec.Command("go", args...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			for _, p := range s.packages {
				run("get", "-t", s.module+p+"@"+s.version)
				run("test", "-count=1", s.module+p)
			}
		})
	}
}
