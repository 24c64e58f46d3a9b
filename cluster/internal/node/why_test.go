package node

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

func TestAReasonForSilenceIsShort(t *testing.T) {
	for want, err := range map[string]error{
		"connection refused":                     syscall.ECONNREFUSED,
		"no answer in 1s":                        context.DeadlineExceeded,
		"it starts or stops":                     kv.ErrClosed,
		"another node has its address or ID":     wire.ErrTwin,
		overview.WhyVersion:                      wire.ErrVersion,
		"call view of node 2: something unusual": errors.New("something unusual"),
	} {
		require.Equal(t, want, whySilent(fmt.Errorf("call view of node 2: %w", err), time.Second))
	}
}
