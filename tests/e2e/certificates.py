"""Certificates for a test, made by openssl: an authority of its own, and what it signs."""
import os
import subprocess


def openssl(*words):
    subprocess.run(['openssl', *words], check=True, capture_output=True)


class Authority:
    """ca.pem in the directory, and the certificates that it signs: NAME.pem with NAME.key."""

    def __init__(self, directory):
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                '-subj', '/CN=authority of the test', '-keyout', self.path('ca.key'), '-out', self.path('ca.pem'))

    def path(self, name):
        return os.path.join(self.directory, name)

    def sign(self, name, host, days=1):
        """Returns the paths of a certificate for the host and of its key. With days=-1 it has expired."""
        key, request, extension = self.path(name + '.key'), self.path(name + '.csr'), self.path(name + '.ext')
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj', '/CN=' + name,
                '-keyout', key, '-out', request)
        with open(extension, 'w', encoding='ascii') as file:
            file.write('subjectAltName=' + host)
        openssl('x509', '-req', '-in', request, '-CA', self.path('ca.pem'), '-CAkey', self.path('ca.key'),
                '-CAcreateserial', '-days', str(days), '-extfile', extension, '-out', self.path(name + '.pem'))
        os.chmod(key, 0o600)
        return self.path(name + '.pem'), key
