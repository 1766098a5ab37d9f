package machine

import (
	"context"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// MeteredEvery is the interval of Metered queries, each of which starts a PowerShell.
const MeteredEvery = 5 * time.Minute

var (
	kernel32             = windows.NewLazySystemDLL("kernel32.dll")
	user32               = windows.NewLazySystemDLL("user32.dll")
	getSystemPowerStatus = kernel32.NewProc("GetSystemPowerStatus")
	getTickCount         = kernel32.NewProc("GetTickCount")
	getLastInputInfo     = user32.NewProc("GetLastInputInfo")
)

// powerStatus is SYSTEM_POWER_STATUS.
type powerStatus struct {
	acLine, battery, percent, saver byte
	lifetime, fullLifetime          uint32
}

func (*Machine) battery(context.Context) volunteer.Fact {
	var s powerStatus
	if ok, _, _ := getSystemPowerStatus.Call(uintptr(unsafe.Pointer(&s))); ok == 0 {
		return volunteer.Unknown
	}
	switch s.acLine {
	case 0:
		return volunteer.Yes
	case 1:
		return volunteer.No
	default:
		return volunteer.Unknown
	}
}

func (m *Machine) metered(ctx context.Context) volunteer.Fact {
	const script = "[void][Windows.Networking.Connectivity.NetworkInformation,Windows.Networking.Connectivity,ContentType=WindowsRuntime];" +
		"[Windows.Networking.Connectivity.NetworkInformation]::GetInternetConnectionProfile().GetConnectionCost().NetworkCostType.ToString()"
	out, err := m.Run(ctx, "powershell.exe", "-NoProfile", "-NonInteractive", "-Command", script)
	if err != nil {
		return volunteer.Unknown
	}
	return costType(out)
}

// lastInput is LASTINPUTINFO.
type lastInput struct{ size, at uint32 }

func (*Machine) idle(context.Context) (time.Duration, bool) {
	var last lastInput
	last.size = uint32(unsafe.Sizeof(last))
	if ok, _, _ := getLastInputInfo.Call(uintptr(unsafe.Pointer(&last))); ok == 0 {
		return 0, false
	}
	now, _, _ := getTickCount.Call()
	return time.Duration(uint32(now)-last.at) * time.Millisecond, true // both count milliseconds and wrap together
}
