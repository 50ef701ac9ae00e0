# The tour for somebody new: a cluster, Stratos, a pool of two stopped nodes, and what to type next.

try() {
  local cpu
  timed cluster_up
  timed load
  timed install_stratos
  cpu=$(kubectl get node "$cluster-worker" -o jsonpath='{.status.capacity.cpu}')
  sed -e "s/CLUSTER/$cluster/" -e "s/RESERVED/$((cpu * 1000 - 250))m/" "$here/manifests/try.yaml" | kubectl apply -f -
  say "the pool warms up: its nodes join, and stop"
  kubectl wait nodepools.stratos.sh/small --for=jsonpath='{.status.standby}'=2 --timeout=600s
  kubectl get nodes -L stratos.sh/state
  cat <<TOUR

Two nodes are stopped containers now. Three commands, the first in a terminal of its own:

  export KUBECONFIG=$KUBECONFIG
  kubectl get nodes -L stratos.sh/state --watch
  kubectl -n team-a scale deployment hello --replicas=1; kubectl -n team-a get pods -o wide --watch
  kubectl -n team-a scale deployment hello --replicas=0

The second starts a stopped node for a pod that fits nowhere; the third lets it stop again, ten seconds later. make try-down removes everything.
TOUR
}
