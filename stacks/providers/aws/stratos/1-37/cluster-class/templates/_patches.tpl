{{/* What the variables change in the templates. */}}
{{- define "class.patches" -}}
- name: region
  definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: AWSClusterTemplate
        matchResources:
          infrastructureCluster: true
      jsonPatches:
        - op: add
          path: /spec/template/spec/region
          valueFrom: {variable: region}
- name: vpcCIDR
  definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: AWSClusterTemplate
        matchResources:
          infrastructureCluster: true
      jsonPatches:
        - op: replace
          path: /spec/template/spec/network/vpc/cidrBlock
          valueFrom: {variable: vpcCIDR}
- name: sshKeyName
  enabledIf: '{{ `{{ ne .sshKeyName "" }}` }}'
  definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: AWSClusterTemplate
        matchResources:
          infrastructureCluster: true
      jsonPatches:
        - op: add
          path: /spec/template/spec/sshKeyName
          valueFrom: {variable: sshKeyName}
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: AWSMachineTemplate
        matchResources:
          controlPlane: true
          machineDeploymentClass:
            names: [default-worker]
      jsonPatches:
        - op: add
          path: /spec/template/spec/sshKeyName
          valueFrom: {variable: sshKeyName}
- name: controlPlaneInstanceType
  definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: AWSMachineTemplate
        matchResources:
          controlPlane: true
      jsonPatches:
        - op: replace
          path: /spec/template/spec/instanceType
          valueFrom: {variable: controlPlaneInstanceType}
- name: workerInstanceType
  definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: AWSMachineTemplate
        matchResources:
          machineDeploymentClass:
            names: [default-worker]
      jsonPatches:
        - op: replace
          path: /spec/template/spec/instanceType
          valueFrom: {variable: workerInstanceType}
- name: controlPlaneRootVolumeSize
  definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: AWSMachineTemplate
        matchResources:
          controlPlane: true
      jsonPatches:
        - op: replace
          path: /spec/template/spec/rootVolume/size
          valueFrom: {variable: controlPlaneRootVolumeSize}
- name: workerRootVolumeSize
  definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: AWSMachineTemplate
        matchResources:
          machineDeploymentClass:
            names: [default-worker]
      jsonPatches:
        - op: replace
          path: /spec/template/spec/rootVolume/size
          valueFrom: {variable: workerRootVolumeSize}
- name: controlPlaneInstanceProfile
  definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: AWSMachineTemplate
        matchResources:
          controlPlane: true
      jsonPatches:
        - op: replace
          path: /spec/template/spec/iamInstanceProfile
          valueFrom: {variable: controlPlaneInstanceProfile}
- name: nodeInstanceProfile
  definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: AWSMachineTemplate
        matchResources:
          machineDeploymentClass:
            names: [default-worker]
      jsonPatches:
        - op: replace
          path: /spec/template/spec/iamInstanceProfile
          valueFrom: {variable: nodeInstanceProfile}
- name: imageOwner
  definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: AWSMachineTemplate
        matchResources:
          controlPlane: true
          machineDeploymentClass:
            names: [default-worker]
      jsonPatches:
        - op: replace
          path: /spec/template/spec/imageLookupOrg
          valueFrom: {variable: imageOwner}
{{- end }}
