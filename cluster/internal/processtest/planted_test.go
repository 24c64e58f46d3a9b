package processtest

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only long runs build the program with the faults.
func TestThePlantedFaultsFitTheCode(t *testing.T) {
	changed, err := overlay()
	require.NoError(t, err)
	out, err := exec.Command("go", "build", "-overlay", changed, plantedPackage).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
