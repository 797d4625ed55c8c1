"""How the image is made; `hack/image/build` decides by what (docs/image.md).

    fetch WORK            the newest Debian packages, the locked wheels and build tools; the only step with a network
    assemble WORK ROOT    the root of the image out of them and of this checkout; the same bytes every time
    sbom                  what is in a root, as CycloneDX (called by assemble)
    archive ROOT FILE     a root as an OCI image, with what the last stage of the Dockerfile says of it
    run-in ROOT COMMAND   a command in a root as a container runtime would start it, for tests and for looking

The Dockerfile runs fetch and assemble, too.  `packages` and `left-out` say what is taken from Debian, `licences` under
which terms everything comes.
"""
