package v1alpha1

import "strconv"

// Price is what one instance costs, by the prices that the user gave Stratos.
type Price struct {
	// Currency of the amounts, as three letters such as USD.
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	Currency string `json:"currency"`
	// RunningPerHour is what an instance costs per hour while it runs, its volumes included.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	RunningPerHour string `json:"runningPerHour"`
	// StoppedPerHour is what an instance costs per hour while it is stopped: its volumes.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	StoppedPerHour string `json:"stoppedPerHour"`
}

// PerHour is what a node in the state costs per hour. Only a standby node counts as stopped: in the
// other states the instance runs, or may.
func (p Price) PerHour(state NodeState) float64 {
	text := p.RunningPerHour
	if state == StateStandby {
		text = p.StoppedPerHour
	}
	amount, _ := strconv.ParseFloat(text, 64) // the definition admits numbers only
	return amount
}

// PoolCostPerHour is what the nodes that the status counts cost per hour at the price.
func (p Price) PoolCostPerHour(s *NodePoolStatus) float64 {
	running := s.Warmup + s.Starting + s.Running + s.Stopping + s.Terminating
	return float64(running)*p.PerHour(StateRunning) + float64(s.Standby)*p.PerHour(StateStandby)
}

// PriceOf is the price of an instance of the type; nil where it is not known. It is known of the
// types that the class names: a node may be older than the class's last change. A type that is not
// usable has its price too, because nodes of it may exist.
func (c *AWSNodeClass) PriceOf(instanceType string) *Price {
	if instanceType == c.Spec.InstanceType {
		return c.Status.Price
	}
	for i := range c.Status.InstanceTypes {
		if t := &c.Status.InstanceTypes[i]; t.Type == instanceType {
			return t.Price
		}
	}
	return nil
}
