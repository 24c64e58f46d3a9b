package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/command"
	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

// The bug: each command of a pipeline had its own time, so that the last one was answered after the time of all of
// them. Then this test would take ten minutes.
func TestAPipelineHasTheTimeOfOneCommand(t *testing.T) {
	bubble(t, func(t testing.TB) {
		node := kvtest.New(1)
		p := dial(t, "tcp", start(t, node, Options{WriteTimeout: shortTimeout, ReadTimeout: shortTimeout}))
		node.World().Hold(0)
		const pairs = 1000
		p.send(strings.Repeat(encode("INCR", "n")+encode("GET", "n"), pairs))
		require.Contains(t, p.reply(), "-UNKNOWN ")
		begun := 1
		for range 2*pairs - 1 {
			switch reply := p.reply(); {
			case strings.HasPrefix(reply, "-UNKNOWN "):
				begun++ // the client had not sent it when the time of others was over
			case reply == "nil", strings.HasPrefix(reply, "-CLUSTERDOWN the read was not confirmed"):
			default:
				require.Contains(t, reply, "-TRYAGAIN other commands of the slot's group took until the time of this one was over")
			}
		}
		require.Less(t, begun, pairs/10)
		node.World().Release(0)
		require.Equal(t, fmt.Sprint(begun), p.do("GET n"), "what was not begun was not done")
	})
}

func TestCommandsWithTooManyKeysAreRefusedAsAWhole(t *testing.T) {
	node := kvtest.New(1)
	p := dial(t, "tcp", start(t, node, Options{MaxKeys: 10}))
	require.Equal(t, "+OK", p.do("SET {k}0 v"))
	tried := 0
	for _, cmd := range command.All() {
		if cmd.First == 0 || cmd.Last >= 0 || cmd.Kind == command.OfOperator {
			continue
		}
		tried++
		request := func(keys int) []string {
			args := []string{cmd.Name}
			if cmd.First == 2 { // BITOP, whose first argument is an operation
				args = append(args, "OR")
			}
			for i := range keys {
				args = append(args, fmt.Sprintf("{k}%d", i))
				for range cmd.Step - 1 {
					args = append(args, "w")
				}
			}
			return args
		}
		p.send(encode(request(11)...))
		require.Equal(t, "-ERR the command has 11 keys, and at most 10 are possible, because others wait for it: "+
			"send several commands", p.reply(), cmd.Name)
		require.Equal(t, "v", p.do("GET {k}0"))
		p.send(encode(request(10)...))
		require.NotContains(t, p.reply(), "-ERR", cmd.Name)
		if cmd.Kind != command.OfSession {
			require.Equal(t, "+OK", p.do("MULTI"))
			p.send(encode(request(11)...))
			require.Contains(t, p.reply(), "-ERR the command has 11 keys")
			require.Contains(t, p.do("EXEC"), "-EXECABORT")
		}
		require.Equal(t, "+OK", p.do("SET {k}0 v"))
	}
	require.GreaterOrEqual(t, tried, 7)
}

// Reads that follow each other share a View, and its time. If they take long, each part of them has its own.
func TestReadsOfAPipelineThatTakeLongAreDivided(t *testing.T) {
	rig := newMemoryRig(t, Options{readPart: 1})
	p := rig.connect()
	p.send(strings.Repeat(encode("STRLEN", "k"), 2*readsBetweenLooks+1))
	part := make([]byte, 1000)
	for _, replies := range []int{readsBetweenLooks, readsBetweenLooks, 1} {
		n, err := p.nc.Read(part) // a pipe gives what one Write has sent
		require.NoError(t, err)
		require.Equal(t, strings.Repeat(":0\r\n", replies), string(part[:n]))
	}
}
